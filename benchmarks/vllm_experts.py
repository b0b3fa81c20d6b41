"""Whether vLLM computes with the weights that it is given while it runs: mixtures of experts, FP8.

    python -P benchmarks/vllm_experts.py                          # a tiny random model of each kind
    python -P benchmarks/vllm_experts.py qwen3_moe --hidden 1024 --experts 32
    python -P benchmarks/vllm_experts.py qwen3_moe qwen3 --quantization fp8   # needs a GPU
    python -P benchmarks/vllm_experts.py MODEL_DIR                # a model of your own

Each model is trained from in one process, beside a vLLM that starts without weights. The gaps are
those between the log-probs of what vLLM samples and the trainer's, in nats a token. `synced` is
after the trainer's weights were sent, `stale` after noise was added to them, `again` after they
were sent once more. On a GPU `raw_stored` and `raw_memory` are after vLLM's own
`load_weights`, by the names of the checkpoint and by those in memory, which is what must not be
used. `ok` says that the weights are the new ones and the stale ones are told from them. One JSON
line a model; a kind that this vLLM cannot have says why. Each runs in a process of its own.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SEED = 20261129
TEXTS = ("24=", "36=", "57=", "113=", "9=", "71=", "88=", "100=")


def say(**facts) -> None:
    print(json.dumps(facts), flush=True)


def shape_of(kind: str, options: argparse.Namespace) -> dict:
    """The numbers of a configuration: experts under each of the names that kinds have for them."""
    head = options.hidden // 2 if options.hidden <= 128 else 64
    heads = options.hidden // head
    experts = ("num_experts", "num_local_experts", "n_routed_experts")
    shape = {
        "hidden_size": options.hidden, "intermediate_size": options.hidden,
        "moe_intermediate_size": options.hidden // 2, "num_hidden_layers": options.layers,
        "shared_expert_intermediate_size": options.hidden // 2, "num_experts_per_tok": 2,
        "num_attention_heads": heads, "num_key_value_heads": max(1, heads // 2), "head_dim": head,
        "max_position_embeddings": 512, "initializer_range": 1.6 / options.hidden**0.5,
    }  # fmt: skip
    shape |= dict.fromkeys(experts, options.experts)
    if kind.startswith("deepseek"):
        shape |= {
            "kv_lora_rank": 128, "q_lora_rank": None, "qk_rope_head_dim": 64, "v_head_dim": 128,
            "qk_nope_head_dim": 128, "num_key_value_heads": heads, "n_group": 1, "topk_group": 1,
            "first_k_dense_replace": 1, "n_shared_experts": 1, "topk_method": "greedy",
        }  # fmt: skip
        shape.pop("head_dim")
    return shape


def make(kind: str, path: Path, options: argparse.Namespace) -> None:
    """A random model of a kind, with the tokenizer of the built-in policy."""
    import torch
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    from rlvr_cli.models import policy

    builtin = policy.load(policy.resolve("builtin"))
    torch.manual_seed(SEED)
    known = CONFIG_MAPPING[kind]
    fields = vars(known())
    shape = {key: value for key, value in shape_of(kind, options).items() if key in fields}
    rows = builtin.model.get_input_embeddings().weight.shape[0]
    config = known(
        **shape, vocab_size=rows, bos_token_id=None, eos_token_id=builtin.eos_ids[0],
        pad_token_id=builtin.pad_id,
    )  # fmt: skip
    AutoModelForCausalLM.from_config(config).save_pretrained(path)
    builtin.tokenizer.save_pretrained(path)


def compare(path: Path, options: argparse.Namespace) -> dict:
    """The gaps of one model, and the seconds that the second sync took."""
    import torch

    from rlvr_cli import registry
    from rlvr_cli.config import UpdateOptions
    from rlvr_cli.engines.training.local import LocalEngine
    from rlvr_cli.models import policy
    from rlvr_cli.stages import agreement

    own = policy.load(policy.resolve(str(path)))
    trainer = LocalEngine(own, UpdateOptions())
    spec = f"vllm:max_length=128,gpu_memory={options.gpu_memory},eager={str(options.eager).lower()}"
    if options.quantization:
        spec += f",quantization={options.quantization}"
    sampler = registry.build("rollout", spec)(own.policy, own)
    prompts = [(own.tokenizer(text)["input_ids"], ()) for text in TEXTS]
    gaps = {}

    def measure(name: str) -> None:
        gap = agreement.measure(sampler, trainer, prompts, max_new_tokens=32)
        gaps[name] = {"mean": gap.mean, "largest": gap.largest, "outside": gap.outside}

    def raw(name: str, weights) -> None:
        try:
            sampler._llm.apply_model(lambda model: len(list(model.load_weights(weights))))
            sampler._llm.reset_prefix_cache()
            measure(name)
        except Exception as error:  # whatever vLLM raises is the result
            gaps[name] = f"{type(error).__name__}: {str(error)[:200]}"

    sampler.sync_weights(trainer, own.policy)
    measure("synced")
    noise = torch.Generator(own.model.device).manual_seed(SEED)
    with torch.no_grad():
        for value in own.model.parameters():
            drawn = torch.randn(
                value.shape, generator=noise, device=value.device, dtype=value.dtype
            )
            value.add_(options.noise * value.std() * drawn)
    measure("stale")
    sampler.sleep()
    begun = time.perf_counter()
    sampler.sync_weights(trainer, own.policy)
    seconds = time.perf_counter() - begun
    measure("again")
    if own.model.device.type == "cuda" and not options.quantization:
        raw("raw_stored", trainer.weights())
        raw("raw_memory", own.model.named_parameters())
    limit, told = agreement.TOLERANCE[sampler.dtype], gaps["stale"]["mean"]
    agree = max(gaps[name]["mean"] for name in ("synced", "again"))
    return {
        "dtype": sampler.dtype, "sync_s": round(seconds, 3), "tolerance": limit,
        "ok": agree <= limit and told > 3 * agree, **gaps,
    }  # fmt: skip


def one(name: str, options: argparse.Namespace) -> None:
    from rlvr_cli.errors import UserError

    with tempfile.TemporaryDirectory() as folder:
        path = Path(name)
        if not path.is_dir():
            path = Path(folder)
            make(name, path, options)
        try:
            say(model=name, **compare(path, options))
        except UserError as error:
            say(model=name, refused=str(error), hint=error.hint)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = ["qwen3_moe", "qwen2_moe", "mixtral", "olmoe", "granitemoe", "deepseek_v2", "gpt_oss"]
    parser.add_argument("models", nargs="*", default=["qwen3", *kinds])
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--experts", type=int, default=4)
    parser.add_argument("--noise", type=float, default=0.25, help="of each tensor's deviation")
    parser.add_argument("--quantization", choices=["fp8"])
    parser.add_argument("--gpu-memory", type=float, default=0.3)
    parser.add_argument("--eager", action="store_true", help="without CUDA graphs")
    options = parser.parse_args()
    if len(options.models) == 1:
        one(options.models[0], options)
        return
    flags = [word for word in sys.argv[1:] if word not in options.models]
    for name in options.models:
        words = [sys.executable, "-P", __file__, name, *flags]
        if subprocess.run(words).returncode:
            say(model=name, ok=False, failed="see above")


if __name__ == "__main__":
    main()

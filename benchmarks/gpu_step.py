"""Seconds of one step of `rlvr train` on GPUs, stage by stage, and of the bare engine beside it.

    python -P benchmarks/gpu_step.py make DIR --shape qwen2.5-1.5b
    python -P benchmarks/gpu_step.py ours DIR --prompts 256 --new-tokens 1024
    python -P benchmarks/gpu_step.py bare DIR --prompts 256 --new-tokens 1024

The weights are random, so lengths are those asked for, or geometric with `make --mean-length 341`,
and every completion is wrong: the objective is nsr, which trains on all of them. `ours` prints the
record of each step, whose first one starts the engines, and the seconds that files took: parts,
manifests, spools and reading them back. `bare` is vLLM's own LLM.generate on the same requests,
with log-probs and without. More cards are scaling.py's.
"""

import argparse
import contextlib
import functools
import hashlib
import json
import os
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

VOCABULARY = 151936
SHAPES = {
    "qwen2.5-0.5b": (896, 24, 14, 2, 4864),
    "qwen2.5-1.5b": (1536, 28, 12, 2, 8960),
    "qwen2.5-7b": (3584, 28, 28, 4, 18944),
    "small": (512, 8, 8, 2, 2048),
    "tiny": (64, 2, 4, 2, 128),
}


def say(**facts) -> None:
    print(json.dumps(facts), flush=True)


def make(options: argparse.Namespace) -> None:
    """A model with random weights in bfloat16, a tokenizer of made-up words, and prompts."""
    import torch
    from tokenizers import pre_tokenizers
    from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

    hidden, layers, heads, kv_heads, inner = SHAPES[options.shape]
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=inner,
        tie_word_embeddings=hidden < 3584,
        max_position_embeddings=32768,
        bos_token_id=None,
        eos_token_id=0,
        dtype="bfloat16",
    )
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = Qwen2ForCausalLM(config)
    ends = round(VOCABULARY / options.mean_length) if options.mean_length else 1
    model.generation_config.eos_token_id = [0, *range(1000, 999 + ends)]
    model.save_pretrained(options.folder)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = letters + [f"w{i:x}" for i in range(VOCABULARY - len(letters) - 2)]
    vocabulary = {"<end>": 0, "<pad>": 1} | {word: i for i, word in enumerate(words, 2)}
    tokenizer = Qwen2Tokenizer(
        vocab=vocabulary, merges=[], eos_token="<end>", pad_token="<pad>", unk_token="<pad>"
    )
    tokenizer.save_pretrained(options.folder)
    with open(options.folder / "prompts.jsonl", "w") as file:
        for index in range(1024):
            digits = hashlib.sha256(f"{index}".encode()).hexdigest()  # 64 letters, 64 tokens
            text = digits.translate(str.maketrans("0123456789", "ghijklmnop"))
            row = {"id": f"p{index:05d}", "prompt": text, "answer": "1"}
            file.write(json.dumps(row) + "\n")
    say(shape=options.shape, parameters=model.num_parameters())


def ours(options: argparse.Namespace) -> None:
    folder = options.folder
    prompts = folder / "prompts"
    if not prompts.exists():
        rlvr("prompts", folder / "prompts.jsonl", "--verifier", "number", "--out", prompts)
    words = [
        "train", "--algo", "nsr", "--model", folder, "--prompts", prompts, "--steps", options.steps,
        "--eval-every", 0, "--save-every", options.save_every,
        "--prompts-per-step", options.prompts,
        "--prompts-per-part", options.prompts // 4,
        "--num-generations", options.generations, "--max-new-tokens", options.new_tokens,
        "--engine", options.engine, "--trainer", options.trainer, "--out", options.out,
        "--micro-batch-tokens", options.micro_batch_tokens,
    ]  # fmt: skip
    if options.recompute:
        words.append("--recompute-activations")
    with _timed_files() as seconds:
        rlvr(*words)
    for line in (Path(options.out) / "metrics.jsonl").read_text().splitlines()[1:]:
        record = json.loads(line)
        complete = sum(record["seconds"].values())
        say(
            step=record["step"],
            seconds={name: round(value, 2) for name, value in record["seconds"].items()},
            whole=round(complete, 2),
            tokens=record["tokens"],
            rollout_tokens_s=round(record["tokens"] / record["seconds"]["rollout"]),
            update_tokens_s=round(record["tokens"] / record["seconds"]["train_step"]),
            loss=record["loss"],
            norm=record["grad_norm"],
            gap=record["sampler_gap"],
        )
    say(files={name: round(value, 3) for name, value in seconds.items()}, steps=options.steps)


def rlvr(*words) -> None:
    from rlvr_cli.cli import app

    sys.argv = ["rlvr", *map(str, words)]
    if app.run(sys.argv[1:]):
        sys.exit("rlvr failed")


@contextlib.contextmanager
def _timed_files():
    """Counts the seconds within the functions that touch files, and those of starting vLLM."""
    from rlvr_cli.engines.rollout import vllm
    from rlvr_cli.stages import batch, steps
    from rlvr_cli.storage import making, partial_completions, shards

    seconds: dict[str, float] = {}

    def timed(module, name):
        inner = getattr(module, name)

        @functools.wraps(inner)
        def wrapper(*arguments, **options):
            start = time.perf_counter()
            try:
                return inner(*arguments, **options)
            finally:
                seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start

        setattr(module, name, wrapper)
        return lambda: setattr(module, name, inner)

    undo = [
        timed(making.Making, "put"),
        timed(making.Making, "finish"),
        timed(partial_completions.PartialCompletions, "_write"),
        timed(shards.Shards, "part"),
        timed(batch, "read"),
        timed(steps, "save_checkpoint"),
        timed(vllm, "_start"),
    ]
    try:
        yield seconds
    finally:
        for each in undo:
            each()


def bare(options: argparse.Namespace) -> None:
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    from transformers import AutoTokenizer
    from vllm import LLM, SamplingParams

    start = time.perf_counter()
    engine = LLM(
        model=str(options.folder),
        skip_tokenizer_init=True,
        logprobs_mode="processed_logprobs",
        disable_log_stats=True,
        gpu_memory_utilization=0.5,
        max_num_seqs=512,
        dtype="bfloat16",
    )
    say(start_s=round(time.perf_counter() - start, 1))
    tokenizer = AutoTokenizer.from_pretrained(options.folder)
    lines = (options.folder / "prompts.jsonl").read_text().splitlines()[: options.prompts]
    texts = [json.loads(line)["prompt"] for line in lines]
    asked = [
        {"prompt_token_ids": ids}
        for ids in tokenizer(texts)["input_ids"]
        for _ in range(options.generations)
    ]
    ways = {
        "flat log-probs and seeds": {"logprobs": 0, "flat_logprobs": True, "seeds": True},
        "flat log-probs": {"logprobs": 0, "flat_logprobs": True},
        "no log-probs": {},
    }
    for name, way in list(ways.items())[: options.ways]:
        seeds = range(len(asked)) if way.pop("seeds", False) else [None] * len(asked)
        sampling = [
            SamplingParams(
                seed=seed,
                max_tokens=options.new_tokens,
                stop_token_ids=[0],
                detokenize=False,
                **way,
            )
            for seed in seeds
        ]
        engine.reset_prefix_cache()
        start = time.perf_counter()
        completions = engine.generate(asked, sampling, use_tqdm=False)
        seconds = time.perf_counter() - start
        tokens = sum(len(each.outputs[0].token_ids) for each in completions)
        say(bare=name, seconds=round(seconds, 2), tokens=tokens, tokens_s=round(tokens / seconds))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=("make", "ours", "bare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shape", choices=SHAPES, default="qwen2.5-1.5b")
    parser.add_argument("--mean-length", type=int, default=0, help="of make: so many ids end it")
    parser.add_argument("--prompts", type=int, default=256)
    parser.add_argument("--generations", type=int, default=8)
    parser.add_argument("--new-tokens", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--engine", default="vllm:max_length=2048")
    parser.add_argument("--trainer", default="deepspeed:zero=2")
    parser.add_argument("--micro-batch-tokens", type=int, default=16384)
    parser.add_argument("--save-every", type=int, default=1000)
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--ways", type=int, default=3, help="of asking the bare engine")
    parser.add_argument("--out", default="runs/gpu-step")
    options = parser.parse_args()
    if options.what != "make":
        import torch

        names = ("torch", "vllm", "deepspeed", "transformers")
        actual = {}
        for name in names:
            with contextlib.suppress(PackageNotFoundError):
                actual[name] = version(name)
        card = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
        say(card=card, versions=actual)
    {"make": make, "ours": ours, "bare": bare}[options.what](options)


if __name__ == "__main__":
    main()

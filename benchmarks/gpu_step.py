"""Seconds of one step of `rlvr train` on GPUs, stage by stage, and of the bare engine beside it.

    python -P benchmarks/gpu_step.py make DIR --shape qwen2.5-1.5b
    python -P benchmarks/gpu_step.py ours DIR --prompts 256 --new-tokens 1024
    python -P benchmarks/gpu_step.py bare DIR --prompts 256 --new-tokens 1024

The weights are random, so lengths are those asked for, or geometric with `make --mean-length 341`,
and every completion is wrong: the objective is nsr, which trains on all of them. `ours` prints the
record of each step, whose first one starts the engines, and the seconds that files took: parts,
manifests, spools and reading them back. A step's seconds leave out those of vLLM's start and of a
checkpoint, which are phases of their own; what waits for a checkpoint to be on disk, in the next
step or at the end of the last, is `checkpoint` too. gpu_table.py makes a page of the records.
`bare` is vLLM's own LLM.generate on the same requests, with log-probs and without. More cards are
scaling.py's.
"""

import argparse
import contextlib
import functools
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))
from step_meter import Meter, run_within

sys.path.pop()  # kernels.py there has the name of a package that transformers looks for
VOCABULARY = 151936
SHAPES = {
    "qwen2.5-0.5b": (896, 24, 14, 2, 4864),
    "qwen2.5-1.5b": (1536, 28, 12, 2, 8960),
    "qwen2.5-7b": (3584, 28, 28, 4, 18944),
    "small": (512, 8, 8, 2, 2048),
    "tiny": (64, 2, 4, 2, 128),
}
PHASES = {
    "sync_weights": "sync",
    "score": "rewards, log-probs",
    "logprob": "rewards, log-probs",
    "advantage": "rewards, log-probs",
    "train_step": "update",
}


def say(**facts) -> None:
    """A JSON line on stdout itself, which is stderr's while rlvr runs a stage."""
    print(json.dumps(facts), file=sys.__stdout__, flush=True)


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
    if options.lora_rank:
        words += ["--lora-rank", options.lora_rank]
    if Path(options.out).exists():
        sys.exit(f"{options.out} is there: a step that is made already takes no time")
    update = {"trainer": options.trainer, "micro_batch_tokens": options.micro_batch_tokens}
    say(run=description(options, "rlvr", options.engine) | update)
    with _metered(Meter(), options), _timed_files() as seconds:
        rlvr(*words)
    say(files={name: round(value, 3) for name, value in seconds.items()}, steps=options.steps)


def description(options: argparse.Namespace, who: str, engine: str) -> dict[str, Any]:
    """A run: who steps, on what, with what."""
    import torch

    config = config_of(options.folder)
    sizes = (config["hidden_size"], config["num_hidden_layers"])
    shape = next(name for name, (hidden, layers, *_) in SHAPES.items() if (hidden, layers) == sizes)
    generation = json.loads((Path(options.folder) / "generation_config.json").read_text())
    ends = len(generation["eos_token_id"])
    versions = {}
    for name in ("torch", "vllm", "deepspeed", "transformers", "peft", "trl"):
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    card, host = "cpu", None
    if torch.cuda.is_available():
        card = torch.cuda.get_device_name()
        uuid = str(torch.cuda.get_device_properties(0).uuid)
        host = hashlib.sha256(uuid.encode()).hexdigest()[:8]  # tells one card from another
    return {
        "who": who,
        "engine": engine,
        "shape": shape,
        "mean_length": round(VOCABULARY / ends) if ends > 1 else None,
        "rows": options.prompts * options.generations,
        "new_tokens": options.new_tokens,
        "lora_rank": options.lora_rank,
        "recompute": options.recompute,
        "card": card,
        "host": host,
        "versions": versions,
    }


def config_of(folder: Path) -> dict[str, Any]:
    config = json.loads((Path(folder) / "config.json").read_text())
    return {**config, **config.get("text_config", {})}


@contextlib.contextmanager
def _metered(meter: Meter, options: argparse.Namespace) -> Iterator[None]:
    """Prints the record of each step that a run takes."""
    from pyarrow import parquet

    from rlvr_cli.engines.rollout import vllm
    from rlvr_cli.loop.run import Run
    from rlvr_cli.loop.timer import Timer
    from rlvr_cli.models.checkpoints import CHECKPOINT
    from rlvr_cli.stages import steps
    from rlvr_cli.storage.atomic import Syncing

    config = config_of(options.folder)
    of_timer, train_on, finish_step = Timer.__call__, Run.train_on, Run.finish_step

    @contextlib.contextmanager
    def timed(timer: Timer, name: str) -> Iterator[None]:
        with meter.phase(PHASES.get(name, name)), of_timer(timer, name):
            yield

    def begun(run: Run, step: int) -> dict[str, float]:
        meter.begin("other")
        return train_on(run, step)

    def finished(run: Run, step: int, seconds: dict[str, float]) -> dict[str, Any]:
        result = finish_step(run, step, seconds)
        if step:
            meter.end()
            names = ["prompt_token_ids", "token_ids"]
            columns = parquet.read_table(run.schedule.rollouts(step), columns=names).columns
            rows = [(len(prompt), len(ids)) for prompt, ids in zip(*columns, strict=True)]
            figures = meter.record(config, rows, result["tokens"], options.lora_rank)
            kept = {name: result[name] for name in ("loss", "grad_norm", "sampler_gap")}
            saved = (run.directory.of("steps", step) / "update" / CHECKPOINT).exists()
            say(step=step, saved=saved, **figures, **kept)
        return result

    Timer.__call__, Run.train_on, Run.finish_step = timed, begun, finished
    phases = {"checkpoint": ((steps, "save_checkpoint"), (Syncing, "begin"), (Run, "_prune")),
              "start": ((vllm, "_start"),)}  # fmt: skip
    undo = [
        run_within(functools.partial(meter.phase, phase), owner, name)
        for phase, places in phases.items()
        for owner, name in places
    ]
    try:
        yield
    finally:
        Timer.__call__, Run.train_on, Run.finish_step = of_timer, train_on, finish_step
        for each in undo:
            each()
        meter.close()


def rlvr(*words) -> None:
    from rlvr_cli.cli import app

    sys.argv = ["rlvr", *map(str, words)]
    if app.run(sys.argv[1:]):
        sys.exit("rlvr failed")


@contextlib.contextmanager
def _timed_files():
    """Counts the seconds within the functions that touch files other than checkpoints."""
    from rlvr_cli.stages import batch
    from rlvr_cli.storage import part_writer, partial_completions, shards

    seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def counted(name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start

    places = (
        (part_writer.PartWriter, "write"), (part_writer.PartWriter, "finish"),
        (shards.Shards, "part"), (partial_completions.PartialCompletions, "_write"),
        (batch, "read"),
    )  # fmt: skip
    undo = [run_within(functools.partial(counted, name), owner, name) for owner, name in places]
    try:
        yield seconds
    finally:
        for each in undo:
            each()


def bare(options: argparse.Namespace) -> None:
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    from transformers import AutoTokenizer
    from vllm import LLM, SamplingParams

    say(run=description(options, "vLLM alone", "vllm"))
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
    parser.add_argument("--lora-rank", type=int, default=0)
    parser.add_argument("--recompute", action="store_true")
    parser.add_argument("--ways", type=int, default=3, help="of asking the bare engine")
    parser.add_argument("--out", default="runs/gpu-step")
    options = parser.parse_args()
    {"make": make, "ours": ours, "bare": bare}[options.what](options)


if __name__ == "__main__":
    main()

"""Tokens/s, memory and start-up of the graph engine beside vLLM's, in one call on one machine.

    python -P benchmarks/graph_engine.py MODEL_DIR --rows 256 1024 --new-tokens 1024
    python -P benchmarks/graph_engine.py MODEL_DIR --lengths geometric LENGTHS.json
    python -P benchmarks/graph_engine.py MODEL_DIR --memory-model DIR2 --rows 64 256 --engines
    python -P benchmarks/graph_engine.py MODEL_DIR --only vllm    # one engine, in this process

MODEL_DIR is what `gpu_step.py make` makes. Both engines are given the same prompts, seeds and
lengths, and are asked for the log-probs of what they sample; every completion has exactly the
length that was drawn for it, as no token ends one. Lengths are geometric with a mean of a third of
--new-tokens, cut there, or those of a file: a JSON list, a rollouts directory, or a number a line.
`all rows` is the graph engine that decodes all its rows until the last one ends. `transformers` has
completions of --new-tokens alone: all rows of its batch go on until the longest ends. `bare` is the
decoding step alone, all rows at work, over caches of the longest length; `two models` is the same
with a memory model (DLC) beside. `start_s` has the compiling and the first capture. Each engine
runs in a process of its own. One JSON line a measurement.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

SEED = 20261128


def say(**facts) -> None:
    print(json.dumps(facts), flush=True)


def requests_of(options: argparse.Namespace, rows: int, lengths: str = "fixed"):
    """Prompts of the model's folder, `--generations` completions of each; and their lengths."""
    import numpy as np
    from transformers import AutoTokenizer

    from rlvr_cli.protocols import Request

    tokenizer = AutoTokenizer.from_pretrained(options.folder)
    lines = (options.folder / "prompts.jsonl").read_text().splitlines()
    texts = [json.loads(line)["prompt"] for line in lines[: -(-rows // options.generations)]]
    ids = tokenizer(texts)["input_ids"]
    requests = [Request(ids[i // options.generations], SEED + i) for i in range(rows)]
    rng = np.random.default_rng(SEED)
    if lengths == "geometric":
        drawn = rng.geometric(3 / options.new_tokens, rows)
    elif lengths == "fixed":
        drawn = np.full(rows, options.new_tokens)
    else:
        drawn = rng.choice(lengths_in(Path(lengths)), rows)
    return requests, [int(length) for length in np.clip(drawn, 1, options.new_tokens)]


def lengths_in(path: Path) -> list[int]:
    if path.is_dir():
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        columns = [pq.read_table(part)["token_ids"] for part in sorted(path.glob("*.parquet"))]
        return [n for column in columns for n in pc.list_value_length(column).to_pylist()]
    text = path.read_text()
    return json.loads(text) if text.lstrip().startswith("[") else list(map(int, text.split()))


def memory() -> dict[str, float]:
    import torch

    if not torch.cuda.is_available():
        return {}
    free, total = torch.cuda.mem_get_info()
    return {
        "in_use_gib": round((total - free) / 2**30, 1),
        "torch_peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 1),
    }


def wait() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def endless(folder: Path):
    """The policy in the precision that it samples in, with an end that is never sampled."""
    import dataclasses

    from rlvr_cli.models import policy as policies

    loaded = policies.load(policies.resolve(str(folder)), frozen=True)
    return dataclasses.replace(loaded, eos_ids=(-1,))


def graph(options: argparse.Namespace) -> None:
    from rlvr_cli.engines.rollout.graph import GraphEngine
    from rlvr_cli.protocols import SamplingParams

    start = time.perf_counter()
    loaded = endless(options.folder)
    load_s = time.perf_counter() - start
    engine = GraphEngine(loaded, options.slots, least_rows=options.least_rows, fuse=options.fuse)
    start = time.perf_counter()
    list(engine.generate(*few(options)))  # compiles kernels, captures
    wait()
    say(
        engine=name_of(options),
        load_s=round(load_s, 1),
        start_s=round(time.perf_counter() - start, 1),
    )
    for rows, lengths in itertools.product(options.rows, options.lengths):
        requests, limits = requests_of(options, rows, lengths)
        for attempt in range(options.repeats):
            start, result = time.perf_counter(), []
            sampling = SamplingParams(options.new_tokens)
            for _, completion in engine.generate(requests, sampling, limits=limits):
                result.append(len(completion.token_ids))
            wait()
            seconds = time.perf_counter() - start
            report(name_of(options), lengths, attempt, result, limits, seconds)


def few(options: argparse.Namespace):
    from rlvr_cli.protocols import SamplingParams

    requests, _ = requests_of(options, min(options.slots, max(options.rows)))
    return requests, SamplingParams(4)


def name_of(options: argparse.Namespace) -> str:
    down = f", down to {options.least_rows}" if options.least_rows < options.slots else ""
    return f"graph{' fused' if options.fuse else ''}, {options.slots} rows{down}"


def vllm(options: argparse.Namespace) -> None:
    from dataclasses import replace

    from rlvr_cli import registry
    from rlvr_cli.models import policy as policies
    from rlvr_cli.protocols import SamplingParams

    asked, _ = requests_of(options, max(options.rows))
    length = options.new_tokens + max(len(request.prompt_token_ids) for request in asked)
    start = time.perf_counter()
    spec = f"vllm:max_length={length},gpu_memory={options.gpu_memory},max_sequences=1024"
    engine = registry.build("rollout", spec)(policies.resolve(str(options.folder)))
    engine._eos_ids = []
    say(engine="vllm", start_s=round(time.perf_counter() - start, 1))
    params = engine._params
    limit_of: dict[int, int] = {}

    def limited(request, sampling):
        """What the engine asks vLLM for, with the length of each request enforced."""
        result = params(request, replace(sampling, max_new_tokens=limit_of[request.seed]))
        result.ignore_eos = True
        return result

    engine._params = limited
    for rows, lengths in itertools.product(options.rows, options.lengths):
        requests, limits = requests_of(options, rows, lengths)
        limit_of |= {r.seed: limit for r, limit in zip(requests, limits, strict=True)}
        for attempt in range(options.repeats):
            engine._llm.reset_prefix_cache()
            start, result = time.perf_counter(), []
            for _, completion in engine.generate(requests, SamplingParams(options.new_tokens)):
                result.append(len(completion.token_ids))
            report("vllm", lengths, attempt, result, limits, time.perf_counter() - start)


def transformers(options: argparse.Namespace) -> None:
    """The fallback engine, whose batch has one length: that of its longest row."""
    from rlvr_cli.engines.rollout.transformers import TransformersEngine
    from rlvr_cli.protocols import SamplingParams

    engine = TransformersEngine(endless(options.folder), options.slots)
    for rows in options.rows:
        requests, limits = requests_of(options, rows)
        for attempt in range(options.repeats):
            start, result = time.perf_counter(), []
            for _, completion in engine.generate(requests, SamplingParams(options.new_tokens)):
                result.append(len(completion.token_ids))
            report("transformers", "fixed", attempt, result, limits, time.perf_counter() - start)


def report(
    engine: str, lengths: str, attempt: int, made: list[int], limits: list[int], s: float
) -> None:
    assert sorted(made) == sorted(limits), "every completion has the length asked for"
    tokens = sum(made)
    say(engine=engine, rows=len(made), lengths=Path(lengths).name, attempt=attempt,
        seconds=round(s, 2), tokens=tokens, longest=max(made), tokens_s=round(tokens / s),
        **memory())  # fmt: skip


def bare(options: argparse.Namespace) -> None:
    """One model's steps against two models' in turn, all rows at work."""
    from rlvr_cli.engines.rollout._batch import ContinuousBatch, GenerationJob
    from rlvr_cli.engines.rollout._decoder import Decoder
    from rlvr_cli.protocols import SamplingParams

    loaded = endless(options.folder)
    other = endless(options.memory_model) if options.memory_model else None
    steps = options.bare_steps
    for rows in options.rows:
        if rows > options.slots:
            continue
        requests, _ = requests_of(options, rows)
        length = -(-(len(requests[0].prompt_token_ids) + options.new_tokens) // 64) * 64
        result = {}
        for name, memory_model in {"bare": None, "two models": other}.items():
            if name == "two models" and memory_model is None:
                continue
            start = time.perf_counter()
            models = [loaded.model] + ([memory_model.model] if memory_model else [])
            decoders = [Decoder(model, rows, length, fuse=options.fuse) for model in models]
            sampling = SamplingParams(options.new_tokens, mu=0.5 * (len(models) > 1))
            slots = ContinuousBatch(decoders, rows, sampling, (-1,), options.new_tokens)
            slots.add([GenerationJob(i, r, options.new_tokens) for i, r in enumerate(requests)])
            slots.run()  # compiles, captures
            wait()
            result[name] = (slots, round(time.perf_counter() - start, 1), [])
        for _ in range(options.repeats):
            for slots, _, seconds in result.values():  # in turn
                wait()
                start, before = time.perf_counter(), slots.steps
                while slots.steps < before + steps:
                    slots.run()
                wait()
                seconds.append((time.perf_counter() - start) / (slots.steps - before))
        for name, (_, start_s, seconds) in result.items():
            best = min(seconds)
            ratio = best / min(result["bare"][2])
            say(engine=name, fused=options.fuse, rows=rows, places=length, start_s=start_s,
                step_ms=round(1e3 * best, 3), tokens_s=round(rows / best),
                times_bare=round(ratio, 3), **memory())  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--new-tokens", type=int, default=1024)
    parser.add_argument(
        "--lengths", nargs="+", default=["geometric"], help="files, `geometric` or `fixed`"
    )
    parser.add_argument("--generations", type=int, default=8)
    parser.add_argument("--slots", type=int, default=256, help="rows of the graph engine")
    parser.add_argument("--least-rows", type=int, default=8, help="that it decodes at last")
    parser.add_argument("--memory-model", type=Path)
    parser.add_argument("--engines", nargs="*", default=["graph", "fused", "all", "vllm"])
    parser.add_argument("--bare-steps", type=int, default=128, help="0: no bare loop")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--gpu-memory", type=float, default=0.8, help="vLLM's share of the GPU")
    parser.add_argument("--fuse", action="store_true")
    parser.add_argument("--only", choices=("graph", "vllm", "transformers", "bare"))
    options = parser.parse_args()
    if options.only:
        return {f.__name__: f for f in (graph, vllm, transformers, bare)}[options.only](options)
    every = ["graph", "--least-rows", str(options.slots)]
    known = {"graph": ["graph"], "fused": ["graph", "--fuse"], "all": every, "vllm": ["vllm"],
             "transformers": ["transformers"]}  # fmt: skip
    jobs = [["--only", *known[engine]] for engine in options.engines]
    if options.bare_steps:
        jobs += [["--only", "bare"], ["--only", "bare", "--fuse"]]
    environment = os.environ | {"VLLM_LOGGING_LEVEL": "ERROR"}
    for job in jobs:
        words = [sys.executable, "-P", __file__, *sys.argv[1:], *job]
        if code := subprocess.run(words, env=environment).returncode:
            say(failed=job, code=code)


if __name__ == "__main__":
    main()

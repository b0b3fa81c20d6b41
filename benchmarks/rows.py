"""Seconds and peak memory of commands on directories of many rows, generated without a model.

    python -P benchmarks/rows.py make DIR --rows 1000000
    python -P benchmarks/rows.py time DIR
    python -P benchmarks/rows.py steps DIR --prompts 20 200000

`make` writes prompts, rollouts (8 completions of a prompt, 40 tokens each), scores and log-probs
straight as shards, so that a million rows take a minute. `time` runs each command on them in a
process of its own; `steps` trains the built-in policy on so many prompts and prints the CPU seconds
of a step.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from rlvr_cli.storage import schema
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import Shards
from rlvr_cli.storage.writer import write_all_shards

N, TOKENS, PER_PART = 8, 40, 1024  # completions of a prompt, tokens of one, prompts of a part
RLVR = [sys.executable, "-P", "-c", "from rlvr_cli.cli.app import main; main()"]
FIGURES = ("rollout", "score", "advantage", "train_step")


def prompts(folder: Path, count: int) -> Shards:
    def part(index: int) -> pa.Table:
        numbers = range(index * PER_PART, min((index + 1) * PER_PART, count))
        texts = [f"What is {n} + {n % 97}? Say how, then state the number alone." for n in numbers]
        return pa.table(
            {
                "prompt_id": [f"sum-{n:07d}" for n in numbers],
                "messages": [json.dumps(text) for text in texts],
                "answer": [str(n + n % 97) for n in numbers],
                "verifier": ["number"] * len(texts),
                "source": [f"source-{n % 3}" for n in numbers],
                "extra": [None] * len(texts),
                "raw": [True] * len(texts),
            },
            schema.schema("prompts"),
        )

    parts = max(1, -(-count // PER_PART))
    params = {"rows": count, "content": str(count), "task": "sums"}
    return write_all_shards(folder / "prompts", Plan("prompts", "prompts", params, {}, parts), part)


def sampled(folder: Path, source: Shards) -> Shards:
    """Rollouts of all prompts, of which about half state the answer; scores and log-probs."""
    generator = np.random.default_rng(0)
    rollouts_schema = schema.of_samplers(schema.schema("rollouts"))

    def rollout(index: int) -> pa.Table:
        rows = source.part(index, ["prompt_id", "answer"]).to_pylist()
        count = len(rows) * N
        token_ids = generator.integers(0, 30, (count, TOKENS), dtype=np.int32)
        logps = -generator.random((count, TOKENS), dtype=np.float32)
        right = generator.random(count) < 0.5
        answers = [row["answer"] for row in rows for _ in range(N)]
        return pa.table(
            {
                "prompt_id": [row["prompt_id"] for row in rows for _ in range(N)],
                "sample_index": list(range(N)) * len(rows),
                "prompt_token_ids": list(token_ids[:, :10]),
                "completion": [
                    f"We add the two numbers step by step. The answer is {a if ok else '1'}."
                    for a, ok in zip(answers, right, strict=True)
                ],
                "token_ids": list(token_ids),
                "behaviour_logp": list(logps),
                "finish_reason": ["stop"] * count,
                "status": ["ok"] * count,
                "seed": generator.integers(0, 2**62, count),
                "policy": ["0" * 64] * count,
            },
            rollouts_schema,
        )

    params = {
        "num_generations": N, "max_new_tokens": TOKENS, "prompts_per_part": PER_PART,
        "temperature": 1.0, "top_p": 1.0, "top_k": 0, "policy": "0" * 64,
    }  # fmt: skip
    plan = Plan("rollouts", "rollout", params, {"prompts": source}, len(source))
    return write_all_shards(
        folder / "rollouts", plan, rollout, summarise=lambda shards: {"completions": shards.rows}
    )


def make(folder: Path, rows: int) -> None:
    source = prompts(folder, rows // N)
    made = sampled(folder, source)
    print(f"{made.rows} completions of {source.rows} prompts in {folder}")


def run(words: list[str]) -> tuple[int, float, float, str]:
    """The exit code of a command, its seconds, its peak memory in MiB, and the end of its words."""
    began = time.perf_counter()
    command = subprocess.Popen(
        [*RLVR, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert command.stdout
    said = command.stdout.read()
    _, status, usage = os.wait4(command.pid, 0)
    seconds = time.perf_counter() - began
    return os.waitstatus_to_exitcode(status), seconds, usage.ru_maxrss / 1024, said[-300:]


def timed(folder: Path, names: list[str]) -> None:
    f = {name: str(folder / name) for name in ("prompts", "rollouts", "scores", "out")}
    shutil.rmtree(f["out"], ignore_errors=True)
    commands = {
        "score": ["score", f["rollouts"], "--no-cache"],
        "doctor": ["doctor", f["prompts"], "--model", "builtin", "--max-new-tokens", "32"],
        "advantage": ["advantage", f["scores"], "--algo", "grpo"],
        "advantage dapo": ["advantage", f["scores"], "--algo", "dapo", "--out", f["out"] + "/dapo"],
        "logprob": ["logprob", f["rollouts"], "--model", "builtin", "--columns", "old_logp"],
        "eval-passk": ["eval-passk", f["scores"], "--k", "1,8"],
        "ucc": ["ucc", f["scores"]],
        "diversity": ["diversity", f["scores"]],
        "compare": ["compare", f["scores"], f["scores"]],
        "report": ["report", str(folder), "--out", f["out"] + "/report.html"],
        "export": ["export", f["scores"], "--out", f["out"] + "/groups.jsonl"],
        "prompts": ["prompts", f["prompts"], "--out", f["out"] + "/prompts"],
        "import": ["import", f["out"] + "/groups.jsonl", "--out", f["out"] + "/imported"],
        "check": ["check", f["scores"]],
    }
    rows = Shards.open(folder / "rollouts").rows
    print(f"{rows} rows\n{'command':16} {'seconds':>8} {'MiB':>7}")
    for name in names or commands:
        code, seconds, mib, said = run(commands[name])
        print(f"{name:16} {seconds:8.1f} {mib:7.0f}{f'  exit {code}: {said}' if code else ''}")
        sys.stdout.flush()


def steps(folder: Path, counts: list[int], number: int) -> None:
    for count in counts:
        here = folder / f"{count}-prompts"
        shutil.rmtree(here, ignore_errors=True)
        source = prompts(here, count)
        words = [
            "train", "--prompts", str(source.path), "--model", "builtin", "--steps", str(number),
            "--prompts-per-step", "8", "--num-generations", "4", "--max-new-tokens", "16",
            "--eval-every", "0", "--save-every", str(number), "--out", str(here / "run"),
        ]  # fmt: skip
        code, seconds, mib, said = run(words)
        lines = (here / "run" / "metrics.jsonl").read_text().splitlines()[-number // 2 :]
        records = [json.loads(line)["seconds"] for line in lines]
        means = {name: sum(r.get(name, 0) for r in records) / len(records) for name in FIGURES}
        shown = ", ".join(f"{name} {mean * 1000:.0f} ms" for name, mean in means.items())
        print(f"{count} prompts: {shown}; {seconds:.1f} s in all, {mib:.0f} MiB", said * (code > 0))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=("make", "time", "steps"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("commands", nargs="*", help="of `time`: some of them")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--prompts", type=int, nargs="+", default=[20, 200_000])
    parser.add_argument("--steps", type=int, default=20)
    given = parser.parse_args()
    if given.what == "make":
        make(given.folder, given.rows)
    elif given.what == "time":
        timed(given.folder, given.commands)
    else:
        steps(given.folder, given.prompts, given.steps)


if __name__ == "__main__":
    main()

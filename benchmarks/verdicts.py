"""Verdicts on stored generations beside the labels that came with them.

    python -P benchmarks/verdicts.py DATA --out DIR [--only NAME ...]

DATA has gens/ and bench/ with the files that JOBS names. Each is joined with its golds, imported,
and scored by `rlvr score`; printed are the counts by label and status, and every disagreement.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlvr_cli.cli import app
from rlvr_cli.interop import readers
from rlvr_cli.storage.shards import Shards

Rows = Iterator[dict[str, Any]]


def math(data: Path) -> Rows:
    yield from readers.read(data / "gens/math_100x8_qwen25math.jsonl.gz")


def gsm8k(data: Path) -> Rows:
    yield from readers.read(data / "gens/gsm8k_1319x4_openai.jsonl.gz")


def mmlu_pro(data: Path) -> Rows:
    options = {r["question_id"]: r for r in readers.read(data / "bench/mmlu_pro_sample.jsonl.gz")}
    for row in readers.read(data / "gens/mmlu_pro_500x8_models.jsonl.gz"):
        yield {**row, "options": options[row["question_id"]]["options"]}


def _tests(data: Path) -> dict[str, dict[str, Any]]:
    return {r["task_id"]: r for r in readers.read(data / "bench/humaneval.jsonl.gz")}


def _program(row: dict[str, Any], task: dict[str, Any]) -> dict[str, Any]:
    keys = ("prompt", "entry_point")
    return {**row, **{key: task[key] for key in keys}, "answer": task["test"]}


def humaneval_gpt(data: Path) -> Rows:
    tests = _tests(data)
    for row in readers.read(data / "gens/humaneval_164x5_gpt_ldb_simple.jsonl.gz"):
        result = {"id": f"{row['model']} {row['task_id']}", "completions": row["solutions"]}
        yield _program({**result, "correct": row["is_solved"]}, tests[row["task_id"]])


def humaneval_codegen(data: Path) -> Rows:
    tests = _tests(data)
    for row in readers.read(data / "gens/humaneval_164x100_codegen16b.jsonl.gz"):
        yield _program(row, tests[row["task_id"]])


def mbpp(data: Path) -> Rows:
    """The solutions that come with the problems: all of them should pass."""
    for row in readers.read(data / "bench/mbpp_sanitized.jsonl.gz"):
        result = {"id": row["task_id"], "prompt": row["prompt_signature"], "correct": True}
        yield {**result, "answer": row["test_check"], "completion": row["code"]}


def mbpp_full(data: Path) -> Rows:
    for row in readers.read(data / "bench/mbpp_full.jsonl.gz"):
        tests = [row["test_setup_code"], *row["test_list"], *row["challenge_test_list"]]
        result = {"id": row["task_id"], "prompt": row["text"], "correct": True}
        yield {**result, "answer": json.dumps(tests), "completion": row["code"]}


def mbpp_qwen(data: Path) -> Rows:
    """With the import that the labels' own evaluator puts before each program."""
    for row in readers.read(data / "gens/mbpp_397_qwencoder.jsonl.gz"):
        text = f"from typing import *\n{row['solutions'][-1]}"
        result = {"id": f"{row['model']} {row['task_id']}", "completion": text}
        yield _program({**result, "correct": row["is_solved"], "answer": row["test"]}, row)


JOBS = {
    "math": (math, "math"),
    "gsm8k": (gsm8k, "math"),
    "mmlu-pro": (mmlu_pro, "choice"),
    "humaneval-gpt": (humaneval_gpt, "code:timeout_s=4"),
    "humaneval-codegen": (humaneval_codegen, "code:timeout_s=4"),
    "mbpp": (mbpp, "code:timeout_s=4"),
    "mbpp-full": (mbpp_full, "code:timeout_s=4"),
    "mbpp-qwen": (mbpp_qwen, "code:timeout_s=4"),
}


def score(name: str, data: Path, out: Path) -> None:
    rows, verifier = JOBS[name]
    out.mkdir(parents=True, exist_ok=True)
    source = out / "rows.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows(data)))
    words = ["--verifier", verifier, "--max-error-rate", "1", "--allow-code-execution"]
    for command in (
        ["import", str(source), "--out", str(out)],
        ["score", str(out / "rollouts"), "--out", str(out / "made"), *words],
    ):
        assert app.run(command) == 0


def report(name: str, out: Path) -> None:
    result = Shards.open(out / "made").table().to_pylist()
    has_labels = (out / "scores").exists()
    labels = Shards.open(out / "scores").table()["correct"].to_pylist() if has_labels else []
    print(f"{name}: {len(result)} completions, {JOBS[name][1]}")
    counts = Counter(
        (label, row["status"], row["correct"])
        for label, row in zip(labels or [None] * len(result), result, strict=True)
    )
    for (label, status, correct), count in sorted(counts.items(), key=str):
        print(f"  label {label!s:6} status {status:10} correct {correct!s:6} {count:7}")
    texts = Shards.open(out / "rollouts").table()["completion"].to_pylist()
    for label, row, text in zip(labels, result, texts, strict=bool(labels)):
        if label is not None and label != bool(row["correct"]):
            actual = {"label": label, **row, "end": text[-120:]}
            print("  disagreement", json.dumps(actual, ensure_ascii=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", choices=JOBS, default=list(JOBS))
    given = parser.parse_args()
    for name in given.only:
        score(name, given.data, given.out / name)
    for name in given.only:
        report(name, given.out / name)


if __name__ == "__main__":
    main()

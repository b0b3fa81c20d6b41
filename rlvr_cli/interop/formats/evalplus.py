"""EvalPlus: its samples in JSON lines, and the JSON of its evaluation results."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from rlvr_cli.errors import DataError
from rlvr_cli.interop.formats._common import NAMES, Row, is_pass

SUFFIX = ".json"
STATUS = {
    **{"pass": True, "fail": False, "timeout": False},
    **{"success": True, "failed": False, "timed out": False},  # to February 2024
}


def recognises(names: set[str]) -> bool:
    """`eval` with `hash` of results, or only the `task_id` and `solution` of samples."""
    return {"eval", "hash"} <= names or {"task_id", "solution"} <= names <= {
        *("task_id", "solution", "_identifier")
    }


def reader(file: str) -> Callable[[Row], list[Row]]:
    """Correct means passing the base and the plus tests; `base_correct` only the base tests.

    Results up to February 2024 hold no solutions, but two lists by task, `base` and `plus`, of a
    status and what each test gave; `plus` is empty where only the base tests ran.
    """

    def read(row: Row) -> list[Row]:
        if "eval" not in row:
            return [row | {"prompt_id": row["task_id"], "completion": row["solution"]}]
        return [_task(file, task, results) for task, results in row["eval"].items()]

    return read


def _task(file: str, task: str, results: Any) -> Row:
    row: Row = {"prompt_id": task}
    if isinstance(results, dict):
        base, plus = ([status for status, _ in results[name]] for name in ("base", "plus"))
        if plus and len(plus) != len(base):
            raise DataError(
                f"`{file}` has {len(base)} results of the base tests and {len(plus)} of the plus "
                f"tests in `{task}`",
                "evaluate again",
            )
        plus = plus or [None] * len(base)
    else:
        base = [result.get("base_status") for result in results]
        plus = [result.get("plus_status") for result in results]
        row["completions"] = [result["solution"] for result in results]
    base_N = [is_pass(status, file, task, STATUS) for status in base]
    plus_N = [b if p is None else is_pass(p, file, task, STATUS)
              for p, b in zip(plus, base_N, strict=True)]  # fmt: skip
    correct = [p if b else b for p, b in zip(plus_N, base_N, strict=True)]
    named = "base and plus" if any(plus) else "base"
    return row | {"correct": correct, "base_correct": base_N, NAMES: {"correct": named}}


def write(groups: Iterable[Row]) -> Iterator[Row]:
    """One object with all results; a completion without a verdict has null for its status."""
    results = {}
    for group in groups:
        status = {True: "pass", False: "fail", None: None}
        results[group["prompt_id"]] = [
            {
                "task_id": group["prompt_id"],
                "solution": completion["completion"],
                "base_status": status[completion.get("correct")],
                "plus_status": None,
            }
            for completion in group["completions"]
        ]
    yield {"date": "", "hash": "", "eval": results}

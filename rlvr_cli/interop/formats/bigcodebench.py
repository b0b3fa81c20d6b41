"""BigCodeBench: the JSON of its evaluation results, `*_eval_results.json`.

Source: `bigcodebench/evaluate.py` of bigcode-project/bigcodebench.
"""

from collections.abc import Callable

from rlvr_cli.interop.formats._common import Row, correct_by, is_pass
from rlvr_cli.interop.formats.evalplus import STATUS


def recognises(names: set[str]) -> bool:
    """`eval` with `date`, without EvalPlus' `hash`."""
    return {"eval", "date"} <= names and "hash" not in names


def reader(file: str) -> Callable[[Row], list[Row]]:
    """A solution is correct if all tests pass."""

    def read(row: Row) -> list[Row]:
        return [
            {"prompt_id": task, "completions": [result["solution"] for result in results]}
            | correct_by("status", [is_pass(r["status"], file, task, STATUS) for r in results])
            for task, results in row["eval"].items()
        ]

    return read

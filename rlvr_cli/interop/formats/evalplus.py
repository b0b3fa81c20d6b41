"""EvalPlus: its samples in JSON lines, and the JSON of its evaluation results."""

from collections.abc import Callable, Iterable, Iterator

from rlvr_cli.interop.formats._common import Row

SUFFIX = ".json"


def recognises(names: set[str]) -> bool:
    """`eval` with `hash` of the results, or the `task_id` and `solution` of samples alone."""
    return {"eval", "hash"} <= names or {"task_id", "solution"} <= names <= {
        *("task_id", "solution", "_identifier")
    }


def reader(file: str) -> Callable[[Row], list[Row]]:
    """Correct is what passes the base and the plus tests; `base_correct` the former alone."""

    def read(row: Row) -> list[Row]:
        if "eval" not in row:
            return [row | {"prompt_id": row["task_id"], "completion": row["solution"]}]
        rows = []
        for task, results in row["eval"].items():
            base = [_passed(result.get("base_status")) for result in results]
            plus = [_passed(r["plus_status"]) if r.get("plus_status") else b
                    for r, b in zip(results, base, strict=True)]  # fmt: skip
            correct = [p if b else b for p, b in zip(plus, base, strict=True)]
            rows.append({"prompt_id": task, "completions": [r["solution"] for r in results],
                         "correct": correct, "base_correct": base})  # fmt: skip
        return rows

    return read


def _passed(status: str | None) -> bool | None:
    return None if status is None else status == "pass"


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

"""Open-Reasoner-Zero: each row is two turns, the question and one with `ground_truth.value`.

A row is a list of them in the authors' JSON; on the Hub its columns are called `0` and `1`.
"""

from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout, Unusable

SAYS = "the prompt is the first turn, the gold `ground_truth` of the second, the verifier math"


def recognises(rows: list[dict[str, Any]]) -> bool:
    turns = _turns(rows[0])
    return len(turns) == 2 and isinstance(turns[1], dict) and bool(turns[1].get("ground_truth"))


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        turns = _turns(row)
        if len(turns) != 2:
            raise Unusable(f"it has {len(turns)} turns")
        return {
            "prompt": _common.value(turns[0], "value"),
            "answer": _common.answered(turns[1]["ground_truth"], "value"),
            "verifier": "math",
            "used": {"0", "1", "messages"},
        }

    return read


def _turns(row: dict[str, Any]) -> list[Any]:
    turns = [row["0"], row["1"]] if _common.has(row, "0", "1") else row.get("messages")
    return turns if isinstance(turns, list) else []

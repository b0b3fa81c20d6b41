"""DeepScaleR: `problem`, `answer` and `solution`, and no other column."""

from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout

SAYS = "the gold is `answer`, the verifier math"


def recognises(rows: list[dict[str, Any]]) -> bool:
    return set(rows[0]) == {"problem", "answer", "solution"}


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        gold = _common.answered(row)
        return {
            "prompt": _common.value(row, "problem"),
            "answer": gold,
            "verifier": "math",
            "used": {"problem", "answer"},
        }

    return read

"""Big-Math: `problem`, `answer`, `source`, `domain` and `llama8b_solve_rate`."""

from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout

SAYS = "the gold is `answer`, the verifier math"


def recognises(rows: list[dict[str, Any]]) -> bool:
    return _common.has(rows[0], "problem", "answer", "domain", "llama8b_solve_rate")


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

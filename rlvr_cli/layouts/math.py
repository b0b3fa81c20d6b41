r"""MATH and NuminaMath-CoT: `problem`, and a `solution` with the gold in \boxed{}.

MATH-500 has the gold in `answer` as well. The `messages` of NuminaMath-CoT end with the solution:
the prompt is `problem`.
"""

from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout

SAYS = r"the gold is `answer`, or else the last \boxed of `solution`, the verifier math"


def recognises(rows: list[dict[str, Any]]) -> bool:
    first = rows[0]
    if not _common.has(first, "problem", "solution"):
        return False
    if "answer" in first:
        return _common.has(first, "level", "subject") or _common.has(first, "level", "type")
    return any("\\boxed" in str(row.get("solution")) for row in rows)


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        gold = (
            _common.answered(row)
            if row.get("answer") is not None
            else _common.boxed_in(row, "solution")
        )
        return {
            "prompt": _common.value(row, "problem"),
            "answer": gold,
            "verifier": "math",
            "used": {"problem", "answer", "messages"},
        }

    return read

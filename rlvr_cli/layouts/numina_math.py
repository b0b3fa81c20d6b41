"""NuminaMath-1.5 and OpenR1-Math-220k: `problem`, `answer`, `solution` and `question_type`.

Rows are unusable if their answer is `proof` or `notfound`, or if the data set marks the problem or
the solution as not valid. The `messages` of OpenR1-Math end with a solution: the prompt is
`problem`, and neither they nor the `generations` are kept.
"""

from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout, Unusable

SAYS = "the gold is `answer`, the verifier math"
_USED = ("problem", "answer", "messages", "generations")


def recognises(rows: list[dict[str, Any]]) -> bool:
    return _common.has(rows[0], "problem", "answer", "solution", "question_type")


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        gold = _common.answered(row)
        if row.get("question_type") == "proof":
            raise Unusable("its `question_type` is `proof`")
        for name in ("problem_is_valid", "solution_is_valid"):
            if row.get(name) not in (None, "Yes"):
                raise Unusable(f"its `{name}` is `{row[name]}`")
        return {
            "prompt": _common.value(row, "problem"),
            "answer": gold,
            "verifier": "math",
            "used": set(_USED),
        }

    return read

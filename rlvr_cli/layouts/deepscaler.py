"""DeepScaleR: `problem`, `answer` and `solution`, and no other column."""

from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout

SAYS = "the gold is `answer`, the verifier math"


def recognises(rows: list[dict[str, Any]]) -> bool:
    return set(rows[0]) == {"problem", "answer", "solution"}


def build() -> Layout:
    return _common.problem_and_answer

"""Big-Math: `problem`, `answer`, `source`, `domain` and `llama8b_solve_rate`."""

from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout

SAYS = "the gold is `answer`, the verifier math"


def recognises(rows: list[dict[str, Any]]) -> bool:
    return _common.has(rows[0], "problem", "answer", "domain", "llama8b_solve_rate")


def build() -> Layout:
    return _common.problem_and_answer

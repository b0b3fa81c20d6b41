"""SYNTHETIC-1 and SYNTHETIC-2, their code and mathematics: `verification_info`, `task_type`."""

import ast
import contextlib
import json
from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout, Unusable

SAYS = "the gold is `verification_info`, the verifier code or math as `task_type` says"
_CODE = ("verifiable_code", "prime_rl_code", "code")
_MATH = "verifiable_math"


def recognises(rows: list[dict[str, Any]]) -> bool:
    return _common.has(rows[0], "prompt", "verification_info", "task_type")


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        kind, gold = row.get("task_type"), _common.value(row, "verification_info")
        if kind not in (*_CODE, _MATH):
            raise Unusable(f"its `task_type` is `{kind}`, which is neither code nor mathematics")
        if kind == _MATH:
            gold = _ground_truth(gold)
        return {
            "prompt": _common.value(row, "prompt"),
            "answer": gold if isinstance(gold, str) else json.dumps(gold),
            "verifier": "math" if kind == _MATH else "code",
            "used": {"prompt", "verification_info", "gold_standard_solution"},
        }

    return read


def _ground_truth(info: Any) -> str:
    """The answer to a problem of mathematics, in an object, its JSON or Python's spelling of it."""
    for parse in (json.loads, ast.literal_eval):
        if isinstance(info, str):
            with contextlib.suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                info = parse(info)
    if not isinstance(info, dict):
        raise Unusable("its `verification_info` is no object")
    return _common.answered(info, "ground_truth")

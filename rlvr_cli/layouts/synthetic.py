"""SYNTHETIC-1 and SYNTHETIC-2, their rows of code: `prompt`, `verification_info`, `task_type`."""

import json
from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout, Unusable

SAYS = "the gold is `verification_info`, the verifier code"
_CODE = ("verifiable_code", "prime_rl_code", "code")


def recognises(rows: list[dict[str, Any]]) -> bool:
    return _common.has(rows[0], "prompt", "verification_info", "task_type")


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        if row.get("task_type") not in _CODE:
            raise Unusable(f"its `task_type` is `{row.get('task_type')}`, which is not code")
        gold = _common.value(row, "verification_info")
        return {
            "prompt": _common.value(row, "prompt"),
            "answer": gold if isinstance(gold, str) else json.dumps(gold),
            "verifier": "code",
            "used": {"prompt", "verification_info", "gold_standard_solution"},
        }

    return read

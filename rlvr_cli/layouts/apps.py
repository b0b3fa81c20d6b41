"""APPS and TACO: `question`, `input_output` and `starter_code`."""

import json
from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout, Unusable

SAYS = "the gold is `input_output`, the verifier code"


def recognises(rows: list[dict[str, Any]]) -> bool:
    return _common.has(rows[0], "question", "input_output", "starter_code")


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        gold = _common.value(row, "input_output")
        try:
            tests = json.loads(gold) if isinstance(gold, str) else gold
        except (ValueError, RecursionError) as error:
            raise Unusable("its `input_output` is not JSON") from error
        if not isinstance(tests, dict) or not tests.get("inputs"):
            raise Unusable("its `input_output` has no inputs")
        return {
            "prompt": _common.program(_common.value(row, "question"), row.get("starter_code")),
            "answer": json.dumps(tests),
            "verifier": "code",
            "used": {"question", "input_output", "solutions"},
        }

    return read

"""LiveCodeBench: `question_content`, `starter_code`, and public and private test cases."""

import json
from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout

SAYS = "the gold is the public and private tests, the verifier code"
_TESTS = ("public_test_cases", "private_test_cases", "metadata")


def recognises(rows: list[dict[str, Any]]) -> bool:
    return _common.has(rows[0], "question_content", "starter_code", *_TESTS)


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        question = _common.value(row, "question_content")
        _common.value(row, "public_test_cases")
        return {
            "prompt": _common.program(question, row.get("starter_code")),
            "answer": json.dumps({name: row[name] for name in _TESTS}),
            "verifier": "code",
            "used": {"question_content", *_TESTS},
        }

    return read

"""CodeContests: `description`, and `public_tests`, `private_tests` and `generated_tests`."""

import json
from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout, Unusable

SAYS = "the gold is all tests, the verifier code"
_TESTS = ("public_tests", "private_tests", "generated_tests")


def recognises(rows: list[dict[str, Any]]) -> bool:
    return _common.has(rows[0], "description", *_TESTS)


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        tests = {name: row[name] for name in _TESTS if (row.get(name) or {}).get("input")}
        if not tests:
            raise Unusable("it has no tests")
        return {
            "prompt": _common.program(_common.value(row, "description"), None),
            "answer": json.dumps(tests),
            "verifier": "code",
            "used": {"description", "solutions", "incorrect_solutions", *_TESTS},
        }

    return read

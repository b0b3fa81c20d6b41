"""MBPP, full and sanitized, and MBPP+: `text` or `prompt`, `test_list`, what goes before the tests.

The prompt ends with the tests of `test_list`, as in the paper (arXiv:2108.07732): nothing else says
what the function is called. Those of `challenge_test_list`, and the `test` of MBPP+
(arXiv:2305.01210), are only in the gold.
"""

from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout

SAYS = "the gold is `test_list`, `challenge_test_list` and `test`, the verifier code"
_TESTS = ("test_list", "challenge_test_list", "test")
_ASK = "{task}\n\nYour code should pass these tests:\n\n{tests}\n"


def recognises(rows: list[dict[str, Any]]) -> bool:
    first = rows[0]
    return _common.has(first, "test_list", "code") and ("text" in first or "prompt" in first)


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        tests = list(map(str, _common.listed(row, "test_list")))
        task = _common.value(row, "text" if row.get("text") else "prompt")
        lines = [
            *(_common.listed(row, "test_imports") if row.get("test_imports") else ()),
            row.get("test_setup_code") or "",
            *tests,
            *(row.get("challenge_test_list") or ()),
            row.get("test") or "",
        ]
        return {
            "prompt": _ASK.format(task=str(task).strip(), tests="\n".join(tests)),
            "answer": "\n".join(line for line in map(str, lines) if line.strip()),
            "verifier": "code",
            "used": {"text", "prompt", "test_setup_code", *_TESTS},
        }

    return read

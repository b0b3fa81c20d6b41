"""LeetCodeDataset: `query`, `test` with `check(candidate)`, `entry_point`, and `prompt`.

The question is `query`. `prompt` holds the imports and helpers that solutions and tests use: it is
kept as the code that a program is appended to.
"""

from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout

SAYS = "the question is `query`, the gold is `test`, the verifier code"


def recognises(rows: list[dict[str, Any]]) -> bool:
    return _common.has(rows[0], "query", "prompt", "test", "entry_point", "starter_code")


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        return {
            "prompt": _common.value(row, "query"),
            "answer": str(_common.value(row, "test")),
            "verifier": "code",
            "used": {"query", "prompt", "test", "input_output", "response", "completion"},
            "extra": {"given_code": str(row.get("prompt") or "")},
        }

    return read

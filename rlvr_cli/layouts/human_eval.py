"""HumanEval and its like: a `prompt` that begins a function, `test` with check(), `entry_point`.

The prompt is the beginning of the program, which a completion continues or writes whole.
"""

from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout

SAYS = "the prompt begins the function `entry_point`, the gold is `test`, the verifier code"


def recognises(rows: list[dict[str, Any]]) -> bool:
    return _common.has(rows[0], "prompt", "test", "entry_point")


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        return {
            "prompt": _common.value(row, "prompt"),
            "answer": str(_common.value(row, "test")),
            "verifier": "code",
            "used": {"prompt", "test"},
            "extra": {"entry_point": _common.value(row, "entry_point")},
        }

    return read

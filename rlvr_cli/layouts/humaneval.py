"""HumanEval: `prompt`, `test` with `check(candidate)`, `entry_point` and `canonical_solution`."""

from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout

SAYS = "the gold is `test`, the verifier code"


def recognises(rows: list[dict[str, Any]]) -> bool:
    return _common.has(rows[0], "prompt", "test", "entry_point", "canonical_solution")


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        return {
            "prompt": _common.value(row, "prompt"),
            "answer": str(_common.value(row, "test")),
            "verifier": "code",
            "used": {"prompt", "test"},
        }

    return read

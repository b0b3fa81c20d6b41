"""IFEval: `prompt`, `instruction_id_list` and `kwargs`, whose unused keys are null."""

from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout, Unusable

SAYS = "the gold is `instruction_id_list` and `kwargs`, the verifier ifeval"


def recognises(rows: list[dict[str, Any]]) -> bool:
    return _common.has(rows[0], "prompt", "instruction_id_list", "kwargs")


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        names = list(_common.value(row, "instruction_id_list"))
        kwargs = list(_common.value(row, "kwargs"))
        if not names or len(names) != len(kwargs):
            raise Unusable(f"it has {len(names)} instructions and {len(kwargs)} `kwargs`")
        given = [{k: v for k, v in (each or {}).items() if v is not None} for each in kwargs]
        return {
            "prompt": _common.value(row, "prompt"),
            "answer": {"instruction_id_list": names, "kwargs": given},
            "verifier": "ifeval",
            "used": {"prompt", "instruction_id_list", "kwargs"},
        }

    return read

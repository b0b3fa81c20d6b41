"""MedMCQA (arXiv:2203.14371): `question`, its options `opa` to `opd`, and `cop`, the right one.

On the Hub `cop` counts from 0, with -1 for none; in the authors' JSON it counts from 1.
"""

from typing import Any

from rlvr_cli.errors import DataError
from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout, Unusable

SAYS = (
    "options are lines `A. ...` below the question, the gold is the letter of `cop`, which counts "
    "from 0 (from 1: --layout medmcqa:first=1), the verifier choice"
)
_OPTIONS = ("opa", "opb", "opc", "opd")


def recognises(rows: list[dict[str, Any]]) -> bool:
    return _common.has(rows[0], "question", *_OPTIONS, "cop")


def build(*, first: int = 0) -> Layout:
    """`first` is the `cop` of the first option: 0 on the Hub, 1 in the authors' files."""

    def read(row: dict[str, Any]) -> dict[str, Any]:
        options = [str(_common.value(row, name)) for name in _OPTIONS]
        index = int(_common.value(row, "cop")) - first
        if index == len(options):
            raise DataError(
                f"a `cop` is {row['cop']}, which is none of the options counted from {first}",
                "count from 1: --layout medmcqa:first=1",
            )
        if not 0 <= index < len(options):
            raise Unusable(f"its `cop` is {row['cop']}, which is no option")
        return {
            "prompt": _common.with_options(_common.text(row, "question"), options),
            "answer": "ABCD"[index],
            "verifier": "choice",
            "used": {"question", *_OPTIONS},
            "extra": {"options": options},
        }

    return read

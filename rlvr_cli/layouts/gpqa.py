"""GPQA: `Question`, `Correct Answer` and three `Incorrect Answer N`.

The options are in an order that a hash of the question and each option gives, so that the right one
is in every place equally often and the same everywhere.
"""

import hashlib
import string
from typing import Any

from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout

SAYS = (
    "options are lines `A. ...` in an order of their own, the gold is a letter, the verifier choice"
)
_WRONG = tuple(f"Incorrect Answer {number}" for number in (1, 2, 3))


def recognises(rows: list[dict[str, Any]]) -> bool:
    return _common.has(rows[0], "Question", "Correct Answer", *_WRONG)


def build() -> Layout:
    def read(row: dict[str, Any]) -> dict[str, Any]:
        question = _common.text(row, "Question")
        texts = [str(_common.value(row, name)).strip() for name in ("Correct Answer", *_WRONG)]
        ordered = sorted(range(len(texts)), key=lambda i: _digest(question, texts[i]))
        letters = string.ascii_uppercase[: len(texts)]
        options = [texts[i] for i in ordered]
        lines = [f"{letter}. {text}" for letter, text in zip(letters, options, strict=True)]
        return {
            "prompt": "\n".join([question, "", *lines]),
            "answer": letters[ordered.index(0)],
            "verifier": "choice",
            "used": {"Question", "Correct Answer", *_WRONG},
            "extra": {"options": options},
        }

    return read


def _digest(question: str, option: str) -> bytes:
    return hashlib.sha256(f"{question}\0{option}".encode(errors="replace")).digest()

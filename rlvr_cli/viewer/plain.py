"""Text for terminals that are not in UTF-8."""

import codecs
from typing import Any

from rich.cells import get_character_cell_size

_ALIKE = str.maketrans({
    "✓": "+", "✗": "x", "…": "~", "‹": "<", "›": ">", "␊": "$", "␛": "^", "⟨": "<", "⟩": ">",
    "│": "|", "┃": "|", "─": "-", "━": "-", "↑": "^", "↓": "v", "←": "<", "→": ">", "“": '"',
    "”": '"', "’": "'", "▌": "|", "▁": "_", "▂": "_", "╭": "+", "╮": "+", "╰": "+", "╯": "+",
})  # fmt: skip


def is_unicode(encoding: str) -> bool:
    """Whether an encoding has every character."""
    return codecs.lookup(encoding).name.startswith("utf")


def plain(text: str, encoding: str) -> str:
    """The text in an encoding's characters: what it lacks looks alike, or is a `?` a cell."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return "".join(_fitting(character, encoding) for character in text.translate(_ALIKE))
    return text


def _fitting(character: str, encoding: str) -> str:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return "?" * get_character_cell_size(character)
    return character


def driver(base: Any, encoding: str) -> Any:
    """A driver of a terminal that writes text in the terminal's encoding."""

    def write(self: Any, data: str) -> None:
        base.write(self, plain(data, encoding))

    return type("PlainDriver", (base,), {"write": write})

"""A finding: one line, and what to do where something is wrong."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "problem"]


@dataclass(frozen=True)
class Finding:
    """One thing that was examined; a problem makes the command fail, a note does not."""

    level: Level
    subject: str
    text: str
    hint: str = ""


MOST = 4  # names that are held to show three and that there are more


def some(names: list[str]) -> str:
    """Three of some names, and whether there are more."""
    return ", ".join(f"`{name}`" for name in names[:3]) + (", ..." if len(names) > 3 else "")

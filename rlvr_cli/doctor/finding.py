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

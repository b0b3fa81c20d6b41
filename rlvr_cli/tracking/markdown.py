"""Rows as a table in Markdown, for trackers that have no tables of their own."""

from collections.abc import Sequence
from typing import Any


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows under the keys of the first one; line feeds and bars stay within their cell."""
    if not rows:
        return ""
    head = list(rows[0])
    lines = [_line(head), "|" + "---|" * len(head)]
    return "\n".join([*lines, *(_line([row[name] for name in head]) for row in rows)])


def _line(cells: Sequence[Any]) -> str:
    texts = ["" if cell is None else str(cell) for cell in cells]
    escaped = (
        t.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", "<br>")
        for t in texts
    )
    return "| " + " | ".join(escaped) + " |"

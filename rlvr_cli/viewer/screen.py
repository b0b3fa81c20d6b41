"""What the viewer shows: a line of the list, the facts above a completion, its text."""

import json
import re
from collections.abc import Sequence

import numpy as np
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from rlvr_cli.terminal.escape import clipped, shown
from rlvr_cli.viewer.index import RIGHT, UNKNOWN, WRONG, Detail, Index
from rlvr_cli.viewer.pieces import SCALES
from rlvr_cli.viewer.styled import Styled

MARKS = {RIGHT: "✓", WRONG: "✗", UNKNOWN: "?"}
COLOURS = {RIGHT: "green", WRONG: "red", UNKNOWN: "yellow"}
NAMES = {RIGHT: "right", WRONG: "wrong", UNKNOWN: "no verdict"}
DIM, BOLD = Style(dim=True), Style(bold=True)
MOST_MARKS = 10_000  # matches of a search that are marked in one text


def prompt_line(index: Index, prompt_id: str, width: int, chosen: bool) -> list[Segment]:
    """A prompt's name and how many of its completions are right."""
    rows = index.rows_of[prompt_id]
    verdicts = index.verdict_N[rows]
    known = int((verdicts != UNKNOWN).sum())
    count = f"{int((verdicts == RIGHT).sum())}/{known}" if known else f"{len(rows)}"
    room = max(4, width - len(count) - 3)
    name = shown(prompt_id).replace("\n", "␊").replace("\t", " ")
    name = name if len(name) <= room else f"…{name[1 - room :]}"
    style = Style(reverse=True, bold=True) if chosen else Style.null()
    line = Text(f" {name}", end="")
    line.truncate(width - len(count) - 2, pad=True)
    return [Segment(line.plain, style), Segment(f" {count} ", style)]


def facts(index: Index, detail: Detail, passing: np.ndarray, width: int) -> Text:
    """Four lines on a completion: place and verdict, answer read, numbers, siblings."""
    rows = index.rows_of[detail.prompt_id]
    colour = COLOURS[detail.verdict]
    lines = Text(no_wrap=True, overflow="ellipsis", end="")
    lines.append(f"sample {detail.sample} of {len(rows)}  ")
    lines.append(f"{MARKS[detail.verdict]} {NAMES[detail.verdict]}", f"bold {colour}")
    if detail.reward is not None:
        lines.append(f"  reward {detail.reward:.4g}")
    if detail.advantage is not None:
        sign = "green" if detail.advantage > 0 else "red" if detail.advantage < 0 else "default"
        lines.append("  advantage ").append(f"{detail.advantage:+.3f}", sign)
    lines.append("\nread ", "dim").append(_short(detail.extracted, width // 2 - 6))
    lines.append("  gold ", "dim").append(_short(detail.answer, width // 2 - 6))
    tokens = len(detail.token_ids) if detail.token_ids is not None else None
    size = f"{tokens} tokens" if tokens is not None else f"{len(detail.completion)} characters"
    why = f": {_short(detail.reason, width)}" if detail.reason else ""
    lines.append(f"\n{size}, {detail.finish_reason or 'end unknown'}, {detail.status}{why}", "dim")
    for name, value_T in detail.values.items():
        if len(value_T):
            lines.append(f", {name} {value_T.mean():.2f}", "dim")
    lines.append("\n").append_text(siblings(index, rows, detail.sample, passing, width))
    return lines


def siblings(
    index: Index, rows: Sequence[int], sample: int, passing: np.ndarray, width: int
) -> Text:
    """A mark for each completion of the prompt: the one shown in reverse, the filtered ones dim."""
    at = next(n for n, row in enumerate(rows) if int(index.sample_N[row]) == sample)
    room = max(8, width - 4)
    start = max(0, min(at - room // 2, len(rows) - room))
    marks = Text("‹ " if start else "", end="")
    for n, row in enumerate(rows[start : start + room], start):
        verdict = int(index.verdict_N[row])
        style = f"{COLOURS[verdict]}{' reverse bold' if n == at else ''}"
        style += "" if passing[row] else " dim"
        marks.append("…" if index.cut_N[row] and verdict != RIGHT else MARKS[verdict], style)
    return marks.append(" ›" if start + room < len(rows) else "")


def text(detail: Detail, pieces: list[str] | None, scale: str | None) -> Styled:
    """The prompt and the completion, whose tokens have the colours of a scale."""
    styled = Styled()
    for role, content in spoken(detail.messages):
        styled.add(f"── {_visible(role)} ──\n", DIM)
        styled.add(_visible(content) + "\n\n")
    styled.add("── completion ──\n", DIM)
    if scale is None or pieces is None:
        styled.add(_visible(detail.completion) or "(nothing)", None if detail.completion else DIM)
        return styled
    colour_of, _ = SCALES[scale]
    for piece, value in zip(pieces, detail.values[scale], strict=False):
        colour = colour_of(float(value))
        style = Style(color="#000000", bgcolor=colour) if colour else None
        styled.add(_visible(piece).replace("\n", "␊\n" if colour else "\n"), style)
    if detail.token_ids is not None and len(pieces) < len(detail.token_ids):
        left = len(detail.token_ids) - len(pieces)
        styled.add(f"\n… {left} more tokens; without colours all are shown", DIM)
    return styled


def spoken(messages: str | None) -> list[tuple[str, str]]:
    """Role and content of each message of a prompt."""
    if messages is None:
        return [("prompt", "(the prompts directory is missing)")]
    value = json.loads(messages)
    if isinstance(value, str):
        return [("prompt", value)] if value else []
    turns = []
    for message in value:
        content = message.get("content")
        turns.append(
            (str(message.get("role")), content if isinstance(content, str) else json.dumps(content))
        )
    return turns


def places(where: str, text: str) -> list[tuple[int, int]]:
    """Where a text occurs, ignoring case."""
    if not text:
        return []
    matches = re.finditer(re.escape(text), where, re.IGNORECASE)
    return [m.span() for _, m in zip(range(MOST_MARKS), matches, strict=False)]


def legend(scale: str) -> Text:
    """The colours of a scale and what they stand for."""
    line = Text(f"{scale}: ", no_wrap=True, end="")
    for name, colour in SCALES[scale][1]:
        line.append(f" {name} ", f"#000000 on {colour}" if colour else "").append(" ")
    return line


def _visible(text: str) -> str:
    return shown(text).expandtabs(4)


def _short(text: str | None, room: int) -> str:
    if text is None:
        return "-"
    start, more = clipped(shown(text).replace("\n", "␊").replace("\t", " "), max(4, room))
    return start[:-1] + "…" if more else start

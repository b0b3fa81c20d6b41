"""What the viewer shows: a line of the list, the facts above a completion, its text."""

import re
from collections.abc import Sequence

import numpy as np
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from rlvr_cli.terminal import plural
from rlvr_cli.terminal.escape import clipped, shown
from rlvr_cli.viewer import pictures
from rlvr_cli.viewer.index import RIGHT, UNKNOWN, WRONG, Detail, Index
from rlvr_cli.viewer.pieces import SCALES
from rlvr_cli.viewer.selection import Selection
from rlvr_cli.viewer.styled import Styled

MARKS = {RIGHT: "✓", WRONG: "✗", UNKNOWN: "?"}
COLOURS = {RIGHT: "green", WRONG: "red", UNKNOWN: "yellow"}
NAMES = {RIGHT: "right", WRONG: "wrong", UNKNOWN: "no verdict"}
DIM = Style(dim=True)
MOST_MARKS = 10_000  # matches of a search that are marked in one text
SHORT_GOLD = 20  # characters; a longer one is shown below the completion too
MOST_TEXT = 400_000  # characters of a text that are shown, half of them its end
MOST_OTHER = 2_000  # characters of a further column that are shown


def prompt_line(selection: Selection, line: int, width: int) -> list[Segment]:
    """A prompt's name and how many of its completions are right, on each side."""
    prompt = selection.shown[line]
    counts = [count(index, int(selection.place_SP[side, prompt]))
              for side, index in enumerate(selection.indexes)]  # fmt: skip
    figures = " ".join(f"{c:>6}" for c in counts) if len(counts) > 1 else counts[0]
    room = max(4, width - len(figures) - 3)
    name = _line(selection.names[prompt])
    name = name if len(name) <= room else f"…{name[1 - room :]}"
    style = Style(reverse=True, bold=True) if prompt == selection.at else Style.null()
    text = Text(f" {name}", end="")
    text.truncate(max(1, width - len(figures) - 2), pad=True)
    return [Segment(text.plain, style), Segment(f" {figures} ", style)]


def count(index: Index, prompt: int) -> str:
    """Right completions of those with a verdict, else the mean reward, else how many there are."""
    if prompt < 0:
        return "-"
    if known := int(index.known_P[prompt]):
        return f"{int(index.right_P[prompt])}/{known}"
    reward = float(index.reward_P[prompt])
    return f"{int(index.n_P[prompt])}" if np.isnan(reward) else f"{reward:.2f}"


def title(selection: Selection, width: int, where: str, state: str) -> Text:
    """The first line: place, filter and order, and which files."""
    prompts, rows = len(selection.shown), selection.completions
    text = f" prompt {selection.line + 1:,} of {prompts:,}, {plural.of(rows, 'completion')}"
    if state:
        text += f" {state}"
    if words := selection.filter.words():
        text += f": {shown(', '.join(words))}"
    if selection.order != "file" or selection.down:
        text += f", by {selection.order} {'↓' if selection.down else '↑'}"
    room = width - len(text) - 3
    where = shown(where)
    where = where if len(where) <= room else "…" + where[1 - room :] if room > 8 else ""
    return Text(f"{text}  {where}", no_wrap=True, overflow="ellipsis", end="")


def heading(selection: Selection, side: int, name: str, width: int) -> Text:
    """The line above one of two sides: which it is, its count, and how it differs."""
    place = int(selection.place_SP[side, selection.at])
    said = f" {'AB'[side]}  {count(selection.indexes[side], place)}"
    if side == 1:
        if selection.at in selection.unlike:
            said += "  another text or gold!"
        elif not np.isnan(change := float(selection.difference_P()[selection.at])):
            said += f"  {100 * change:+.0f} points"
    name = _line(name)
    room = width - len(said) - 3
    said += f"  {name if len(name) <= room else '…' + name[1 - room :]}" if room > 4 else ""
    style = "reverse bold" if side == selection.active else "bold"
    return Text(f"{said:<{width}}"[:width], style, no_wrap=True, overflow="crop", end="")


def facts(index: Index, row: int, detail: Detail, passing: np.ndarray, width: int) -> Text:
    """Four lines on a completion: place and verdict, answer read, numbers, siblings."""
    prompt = int(index.prompt_N[row])
    rows = index.rows_of(prompt)
    lines = Text(no_wrap=True, overflow="ellipsis", end="")
    lines.append(f"sample {detail.sample} of {len(rows)}  ")
    lines.append(
        f"{MARKS[detail.verdict]} {NAMES[detail.verdict]}", f"bold {COLOURS[detail.verdict]}"
    )
    if detail.reward is not None:
        lines.append(f"  reward {detail.reward:.4g}")
    if detail.advantage is not None:
        sign = "green" if detail.advantage > 0 else "red" if detail.advantage < 0 else "default"
        lines.append("  advantage ").append(f"{detail.advantage:+.3f}", sign)
    if index.several(prompt):
        lines.append("  prompts of this id differ", "bold yellow")
    lines.append("\nread ", "dim").append(_short(detail.extracted, width // 2 - 6))
    lines.append("  gold ", "dim").append(_ending(detail.answer, width // 2 - 6))
    lines.append(f"\n{_size(detail)}", "dim")
    is_of_directory = detail.token_ids is not None or detail.status is not None
    ended = detail.finish_reason or ("end unknown" if is_of_directory else None)
    for word in (ended, detail.status):
        lines.append(f", {_short(word, width)}" if word else "", "dim")
    lines.append(f": {_short(detail.reason, width)}" if detail.reason else "", "dim")
    for name, value_T in detail.values.items():
        if len(value_T):
            lines.append(f", {name} {value_T.mean():.2f}", "dim")
    return lines.append("\n").append_text(siblings(index, rows, row, passing, width))


def _size(detail: Detail) -> str:
    if detail.token_ids is not None:
        return plural.of(len(detail.token_ids), "token")
    if detail.completion is None:
        return "no text"
    size = len(detail.completion)
    return plural.of(size, "character")


def siblings(
    index: Index, rows: Sequence[int] | np.ndarray, row: int, passing: np.ndarray, width: int
) -> Text:
    """A mark for each completion of the prompt: the one shown in reverse, the filtered ones dim."""
    at = list(rows).index(row)
    room = max(8, width - 4)
    start = max(0, min(at - room // 2, len(rows) - room))
    marks = Text("‹ " if start else "", end="")
    for n, other in enumerate(rows[start : start + room], start):
        verdict = int(index.verdict_N[other])
        style = f"{COLOURS[verdict]}{' reverse bold' if n == at else ''}"
        style += "" if passing[other] else " dim"
        marks.append("…" if index.cut_N[other] and verdict != RIGHT else MARKS[verdict], style)
    return marks.append(" ›" if start + room < len(rows) else "")


def text(detail: Detail, pieces: list[str] | None, scale: str | None) -> Styled:
    """The prompt and the completion, whose tokens have the colours of a scale; other columns."""
    styled = Styled()
    spoken = [("prompt", "(not known here)")] if detail.turns is None else detail.turns
    for role, content in spoken:
        styled.add(f"── {_visible(role)} ──\n", DIM)
        styled.add(_stripped(content) + "\n\n")
    if detail.images:
        styled.add("── images ──\n", DIM)
        styled.add("".join(f"{pictures.line(image)}\n" for image in detail.images) + "\n")
    styled.add("── completion ──\n", DIM)
    if scale is None or pieces is None:
        nothing = "(not known)" if detail.completion is None else "(nothing)"
        styled.add(_stripped(detail.completion or nothing), None if detail.completion else DIM)
    else:
        _add_coloured(styled, detail, pieces, scale)
    others = detail.others
    if detail.answer is not None and len(detail.answer) > SHORT_GOLD:
        others = {"gold": detail.answer, **others}
    for name, value in others.items():
        start, more = clipped(value, MOST_OTHER)
        styled.add(f"\n\n── {_visible(name)} ──\n", DIM)
        styled.add(_visible(start) + (f" … and {more:,} more characters" if more else ""), DIM)
    return styled


def _add_coloured(styled: Styled, detail: Detail, pieces: list[str], scale: str) -> None:
    colour_of, _ = SCALES[scale]
    for piece, value in zip(pieces, detail.values[scale], strict=False):
        colour = colour_of(float(value))
        style = Style(color="#000000", bgcolor=colour) if colour else None
        styled.add(_visible(piece).replace("\n", "␊\n" if colour else "\n"), style)
    if detail.token_ids is not None and len(pieces) < len(detail.token_ids):
        left = len(detail.token_ids) - len(pieces)
        styled.add(f"\n… {left} more tokens; without colours all are shown", DIM)


def places(where: str, text: str) -> list[tuple[int, int]]:
    """Where a text occurs, ignoring case."""
    if not text:
        return []
    matches = re.finditer(re.escape(text), where, re.IGNORECASE)
    return [m.span() for _, m in zip(range(MOST_MARKS), matches, strict=False)]


def legend(scale: str) -> Text:
    """The colours of a scale and what they mean."""
    line = Text(f"{scale}: ", no_wrap=True, end="")
    for name, colour in SCALES[scale][1]:
        line.append(f" {name} ", f"#000000 on {colour}" if colour else "").append(" ")
    return line


def _stripped(text: str) -> str:
    """A text to be shown, without the middle of a very long one."""
    if len(text) <= MOST_TEXT:
        return _visible(text)
    half = MOST_TEXT // 2
    cut = f"\n\n… {len(text) - MOST_TEXT:,} characters are left out here …\n\n"
    return _visible(text[:half]) + cut + _visible(text[-half:])


def _visible(text: str) -> str:
    return shown(text).expandtabs(4)


def _short(text: str | None, room: int) -> str:
    if text is None:
        return "-"
    start, more = clipped(_line(text), max(4, room))
    return start[:-1] + "…" if more else start


def _ending(text: str | None, room: int) -> str:
    """As `_short`, but of several lines the end, where a worked solution has its answer."""
    if text is None or "\n" not in text.strip() or len(text) <= max(4, room):
        return _short(text, room)
    return f"…{_line(text.strip()[1 - max(4, room) :])}"


def _line(text: str) -> str:
    return shown(text).replace("\n", "␊").replace("\t", " ")

"""Text with styles, cut into lines of a width: only the visible lines are drawn."""

import bisect
import itertools
import re
from collections.abc import Iterator

from rich.cells import cell_len, get_character_cell_size
from rich.segment import Segment
from rich.style import Style

_WORD = re.compile(r"[^ ]* *")


class Styled:
    """A text that grows piece by piece; each piece has one style."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._starts: list[int] = []
        self._styles: list[Style] = []
        self._length = 0
        self._text: str | None = None

    def add(self, text: str, style: Style | None = None) -> None:
        if text:
            self._starts.append(self._length)
            self._styles.append(style or Style.null())
            self._parts.append(text)
            self._length += len(text)
            self._text = None

    @property
    def text(self) -> str:
        if self._text is None:
            self._text = "".join(self._parts)
        return self._text

    def segments(self, start: int, end: int, marks: list[tuple[int, int]]) -> list[Segment]:
        """The pieces between two places; those that a mark covers are in reverse."""
        cuts = {start, end}
        at = max(0, bisect.bisect_right(self._starts, start) - 1)
        cuts |= {s for s in self._starts[at : bisect.bisect_left(self._starts, end)] if s > start}
        first = bisect.bisect_left(marks, (start, 0))
        near = [m for m in marks[max(0, first - 1) :][:64] if m[0] < end and m[1] > start]
        cuts |= {min(max(edge, start), end) for mark in near for edge in mark}
        ordered = sorted(cuts)
        segments = []
        for a, b in itertools.pairwise(ordered):
            style = self._styles[bisect.bisect_right(self._starts, a) - 1]
            if any(m[0] <= a < m[1] for m in near):
                style = style + Style(reverse=True, bold=True)
            segments.append(Segment(self.text[a:b], style))
        return segments


def lines(text: str, width: int) -> list[tuple[int, int]]:
    """Start and end of each line: broken at line feeds, else between words, else anywhere."""
    spans: list[tuple[int, int]] = []
    start = 0
    for paragraph in text.split("\n"):
        end = start + len(paragraph)
        if len(paragraph) <= width and cell_len(paragraph) <= width:
            spans.append((start, end))
        else:
            spans += ((start + a, start + b) for a, b in _folded(paragraph, width))
        start = end + 1
    return spans


def _folded(paragraph: str, width: int) -> Iterator[tuple[int, int]]:
    start = used = 0
    for word in _WORD.finditer(paragraph):
        a, b = word.span()
        bare = cell_len(word[0].rstrip(" "))
        if used and used + bare > width:
            yield start, a
            start, used = a, 0
        if bare > width:
            for cut in _cuts(paragraph, a, b, width):
                yield start, cut
                start = cut
            used = cell_len(paragraph[start:b])
        else:
            used += bare + (b - a - len(word[0].rstrip(" ")))
    yield start, len(paragraph)


def _cuts(text: str, start: int, end: int, width: int) -> Iterator[int]:
    """Where to cut a word that is longer than a line."""
    if text.isascii():  # every character takes one cell
        yield from range(start + width, end, width)
        return
    used = 0
    for at in range(start, end):
        size = get_character_cell_size(text[at])
        if used + size > width and used:
            yield at
            used = 0
        used += size

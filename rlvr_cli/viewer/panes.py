"""The panes: a list of prompts and a text, drawn line by line as they become visible; a side."""

from collections.abc import Callable, Sequence

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static

from rlvr_cli.viewer import screen
from rlvr_cli.viewer.index import Detail
from rlvr_cli.viewer.selection import Selection
from rlvr_cli.viewer.styled import Styled, lines

_PLAIN = Style.null()  # no style at all is what NO_COLOR's filter cannot take


class ListPane(ScrollView, can_focus=False):
    """Lines that `draw` returns as they become visible."""

    class Chosen(Message):
        """A line was clicked."""

        def __init__(self, line: int) -> None:
            super().__init__()
            self.line = line

    def __init__(self, draw: Callable[[int, int], list[Segment]], *, id: str) -> None:
        super().__init__(id=id)
        self._draw, self._count = draw, 0

    def show(self, count: int, chosen: int) -> None:
        """Shows `count` lines and scrolls to the chosen one."""
        self._count = count
        self.virtual_size = Size(self.size.width, count)
        top, height = round(self.scroll_y), max(1, self.size.height)
        if not top <= chosen < top + height:
            self.scroll_to(y=max(0, chosen - height // 2), animate=False)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        line = y + round(self.scroll_y)
        if line >= self._count:
            return Strip.blank(self.size.width, _PLAIN)
        width = self.size.width
        return Strip(self._draw(line, width)).adjust_cell_length(width, _PLAIN)

    def on_click(self, event: events.Click) -> None:
        line = event.y + round(self.scroll_y)
        if line < self._count:
            self.post_message(self.Chosen(line))


class TextPane(ScrollView, can_focus=False):
    """A styled text, folded to the pane's width."""

    def __init__(self, *, id: str, classes: str) -> None:
        super().__init__(id=id, classes=classes)
        self._text, self._lines = Styled(), [(0, 0)]
        self._marks: list[tuple[int, int]] = []

    def show(self, text: Styled, marks: Sequence[tuple[int, int]] = ()) -> None:
        """Shows a text from its start, or from its first mark."""
        self._text, self._marks = text, sorted(marks)
        self._fold()
        self.scroll_to(y=0, animate=False)
        if self._marks:
            place = self._marks[0][0]
            line = next((n for n, (_, end) in enumerate(self._lines) if end > place), 0)
            if line >= self.size.height:
                self.scroll_to(y=max(0, line - self.size.height // 2), animate=False)

    def _fold(self) -> None:
        width = max(1, self.size.width - 1)
        self._lines = lines(self._text.text, width)
        self.virtual_size = Size(width, len(self._lines))
        self.refresh()

    def on_resize(self) -> None:
        self._fold()

    def render_line(self, y: int) -> Strip:
        line = y + round(self.scroll_y)
        width = self.size.width
        if line >= len(self._lines):
            return Strip.blank(width, _PLAIN)
        start, end = self._lines[line]
        drawn = self._text.segments(start, end, self._marks) if end > start else []
        return Strip(drawn).adjust_cell_length(width, _PLAIN)


class SidePane(Vertical):
    """A completion of one side: its facts above, its text below."""

    def __init__(self, side: int) -> None:
        super().__init__(classes="side")
        self.side = side
        self.row: int | None = None  # of the completion whose text is shown
        self._heading = Static(id=f"heading-{side}", classes="heading")
        self._facts = Static(id=f"facts-{side}", classes="facts")
        self.text = TextPane(id=f"text-{side}", classes="text")

    def compose(self) -> ComposeResult:
        yield self._heading
        yield self._facts
        yield self.text

    def show(self, selection: Selection, name: str) -> Detail | None:
        """Shows the lines above the text; the completion, None if this side lacks the prompt."""
        self.set_class(self.side != selection.active, "inactive")
        width = max(20, self._facts.size.width)
        self._heading.update(screen.heading(selection, self.side, name, width))
        index, row = selection.indexes[self.side], selection.rows[self.side]
        if row is None:
            self._facts.update(Text("this prompt is not on this side", "dim"))
            self.text.show(Styled())
            self.row = None
            return None
        detail = index.detail(row)
        passing = selection.passing[self.side]
        self._facts.update(screen.facts(index, row, detail, passing, width))
        return detail

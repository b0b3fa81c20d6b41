"""Reading completions in the terminal."""

import contextlib
import dataclasses
import sys
from typing import Any, ClassVar

from rich.segment import Segment
from textual import on, work
from textual.app import App, ComposeResult, SuspendNotSupported
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Static

from rlvr_cli.errors import UserError
from rlvr_cli.terminal.escape import shown
from rlvr_cli.viewer import keys, pictures, pieces, plain, screen
from rlvr_cli.viewer.filters import VERDICTS, RowFilter, without_status
from rlvr_cli.viewer.index import Detail, Index
from rlvr_cli.viewer.panes import ListPane, SidePane
from rlvr_cli.viewer.pieces import SCALES
from rlvr_cli.viewer.selection import Selection
from rlvr_cli.viewer.start import Side

LONG_SEARCH = 100_000  # completions that take about a second to look through


class Viewer(App[None]):
    """The prompts on the left, a completion of the chosen one on the right, or one of each side."""

    CSS = keys.CSS
    HORIZONTAL_BREAKPOINTS = [(0, "narrow"), (60, "wide"), (112, "broad")]  # noqa: RUF012
    AUTO_FOCUS = None
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = keys.BINDINGS

    class Grown(Message):
        """More of a side was read, or its end was reached."""

        def __init__(self, side: int, index: Index | None, failure: UserError | None) -> None:
            super().__init__()
            self.side, self.index, self.failure = side, index, failure

    def __init__(self, sides: list[Side]) -> None:
        super().__init__(ansi_color=True)
        self._sides, self._reading = sides, {side: "so far" for side in range(len(sides))}
        self.selection = Selection([side.index for side in sides])
        self._pieces: dict[int, tuple[int, list[str]]] = {}
        self._scale, self._fetching, self._asked = "", False, "search"
        self._terminal = pictures.Terminal()

    def get_driver_class(self) -> Any:
        driver = super().get_driver_class()
        encoding = getattr(sys.__stderr__, "encoding", None) or "utf-8"
        return driver if plain.is_unicode(encoding) else plain.driver(driver, encoding)

    def compose(self) -> ComposeResult:
        yield Static(id="top")
        with Horizontal():
            yield ListPane(self._list_line, id="list")
            for side in range(len(self._sides)):
                yield SidePane(side)
        yield Static(id="legend")
        yield Input(id="ask", select_on_focus=False)
        yield Static(keys.LINE, id="keys", markup=False)

    def on_mount(self) -> None:
        self.theme = "ansi-dark"
        self.screen.set_class(len(self._sides) > 1, "pair")
        for side in range(len(self._sides)):
            self._read(side)
        self.call_after_refresh(self._show)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    @work(thread=True)
    def _read(self, side: int) -> None:
        """Reads the rest of a side in a thread, while its beginning is shown."""
        snapshots, failure = self._sides[side].snapshots, None
        try:
            for index in snapshots:
                if not self.is_running or snapshots is not self._sides[side].snapshots:
                    return
                self.post_message(self.Grown(side, index, None))
        except UserError as error:
            failure = error
        self.post_message(self.Grown(side, None, failure))

    @on(Grown)
    def _grow(self, event: Grown) -> None:
        if event.index is not None:
            self._sides[event.side].index = event.index
            self.selection.replace(event.side, event.index, grown=True)
        elif event.failure:
            self._sides[event.side].failure = event.failure
            self._reading[event.side] = "before an error"
            self._say(f"{event.failure}; {event.failure.hint}", seconds=30)
        else:
            self._reading.pop(event.side, None)
            if not self._reading and (unlike := len(self.selection.unlike)):
                self._say(f"{unlike:,} prompts have the same id and another text or gold")
        self._show(keep=True)

    def _list_line(self, line: int, width: int) -> list[Segment]:
        return screen.prompt_line(self.selection, line, width)

    def _show(self, *, keep: bool = False) -> None:
        """Draws everything; with `keep` a text that is shown already stays where it is scrolled."""
        selection = self.selection
        where = " | ".join(side.name for side in self._sides)
        state = next(iter(self._reading.values()), "")
        title = screen.title(selection, self.size.width, where, state)
        self.query_one("#top", Static).update(title)
        self.query_one("#list", ListPane).show(len(selection.shown), selection.line)
        for number, pane in enumerate(self.query(SidePane)):
            details = pane.show(selection, self._sides[number].name)
            if details and not (keep and pane.row == selection.rows[number]):
                self._show_text(pane, details)
        legend = self.query_one("#legend", Static)
        legend.display = bool(self._scale)
        if self._scale:
            legend.update(screen.legend(self._scale))

    def _show_text(self, pane: SidePane, detail: Detail) -> None:
        row = pane.row = self.selection.rows[pane.side]
        assert row is not None
        text = screen.text(detail, self._pieces_of(pane.side, row, detail), self._scale or None)
        pane.text.show(text, screen.places(text.text, shown(self.selection.filter.text)))

    def _pieces_of(self, side: int, row: int, detail: Detail) -> list[str] | None:
        """The text of each token, decoded when it is first wanted."""
        decoder = self._sides[side].decoder
        if detail.token_ids is None or self._scale not in detail.values or decoder is None:
            return None
        if self._pieces.get(side, (-1, []))[0] != row:
            self._pieces[side] = row, pieces.decode(decoder, detail.token_ids)
        return self._pieces[side][1]

    def action_prompt(self, by: int) -> None:
        self.selection.step(by)
        self._show()

    def action_edge(self, end: int) -> None:
        self.selection.go(self.selection.shown[end])
        self._show()

    def action_sample(self, by: int) -> None:
        if self.selection.sample(by):
            self._show()

    def action_row(self, by: int) -> None:
        self.selection.row(by)
        self._show()

    def action_side(self) -> None:
        if self.selection.other_side():
            self._show(keep=True)

    @on(ListPane.Chosen)
    def _clicked(self, event: ListPane.Chosen) -> None:
        self.selection.go(self.selection.shown[event.line])
        self.action_listing(False)
        self._show()

    def action_listing(self, wanted: bool | None = None) -> None:
        """Toggles the list of prompts, which replaces the texts if there is no room for both."""
        is_alone = self.query(SidePane).first().size.width == 0
        if wanted is None or is_alone:
            self.screen.toggle_class("listing")
            self.call_after_refresh(self._show)

    def action_scroll(self, by: int) -> None:
        pane = list(self.query(SidePane))[self.selection.active].text
        pane.scroll_relative(y=by * max(1, pane.size.height - 1), animate=False)

    def action_folder(self, by: int) -> None:
        """Another evaluation of the same run, at the same prompt and sample if it has them."""
        active = self.selection.active
        side = self._sides[active]
        try:
            if not side.move(by):
                return self._say("there is no other evaluation that way")
        except UserError as error:
            return self._say(str(error))
        self._pieces.pop(active, None)
        self.selection.replace(active, side.index)
        self._choose(without_status(self.selection.filter, self.selection.indexes))
        if self._scale:
            self._fetch(self._scale)

    def action_ask(self, what: str) -> None:
        field = self.query_one("#ask", Input)
        self._asked, field.placeholder, field.display = what, keys.ASKED[what], True
        field.value = self.selection.filter.text if what == "search" else ""
        field.focus()

    @on(Input.Submitted)
    def _answer(self, event: Input.Submitted) -> None:
        self.action_leave()
        if self._asked == "search":
            if event.value and sum(map(len, self.selection.indexes)) > LONG_SEARCH:
                self._say("searching …")
            self._search(dataclasses.replace(self.selection.filter, text=event.value))
        elif event.value.strip() and not self.selection.jump(event.value):
            self._say(f"no prompt has the id or number {event.value}")
        else:
            self._show()

    @work(thread=True, exclusive=True, group="search")
    def _search(self, wanted: RowFilter) -> None:
        """Looks through the texts in a thread, as it may take long, then filters by them."""
        if wanted.text:
            for index in self.selection.indexes:
                index.holding(wanted.text)
        self.call_later(self._choose, wanted)

    def action_leave(self) -> None:
        self.query_one("#ask", Input).display = False
        self.set_focus(None)

    def action_verdict(self) -> None:
        self._cycle("verdict", self.selection.filter.verdict, [None, *VERDICTS])

    def action_truncated(self) -> None:
        self._cycle("truncated", self.selection.filter.truncated, [None, True, False])

    def action_status(self) -> None:
        known = dict.fromkeys(s for index in self.selection.indexes for s in index.statuses)
        self._cycle("status", self.selection.filter.status, [None, *known])

    def action_group(self) -> None:
        self._cycle("group", self.selection.filter.group, [None, *self.selection.groups])

    def action_clear(self) -> None:
        self._choose(RowFilter())

    def _cycle(self, name: str, value: Any, ring: list[Any]) -> None:
        """The next value in the ring that some completion passes; says so if there is no other."""
        at, before = ring.index(value), self.selection.filter
        for wanted in [*ring[at + 1 :], *ring[:at]]:
            if self.selection.choose(dataclasses.replace(before, **{name: wanted})):
                return self._show()
        self._say(f"no other {name} is among these completions")

    def _choose(self, wanted: RowFilter) -> bool:
        """Changes the filter, or reports that no completion would be left."""
        if not self.selection.choose(wanted):
            self._say(f"no completion is {', '.join(wanted.words())}")
            return False
        self._show()
        return True

    def action_sort(self) -> None:
        orders = self.selection.orders
        order = orders[(orders.index(self.selection.order) + 1) % len(orders)]
        self.selection.sort(order, down=False)
        self._show()

    def action_turn(self) -> None:
        self.selection.sort(self.selection.order, down=not self.selection.down)
        self._show()

    def action_colour(self) -> None:
        active = self.selection.active
        index, row = self.selection.indexes[active], self.selection.rows[active]
        values = {} if row is None else index.detail(row).values
        known = [scale for scale in SCALES if scale in values]
        if self.no_color:
            return self._say("NO_COLOR is set, so tokens have no colours")
        if not known:
            return self._say("no log-probs of these tokens: `rlvr logprob` computes them")
        ring = ["", *known]
        wanted = ring[(ring.index(self._scale) + 1) % len(ring)] if self._scale in ring else ""
        if wanted and any(side.decoder is None for side in self._sides if not side.is_foreign):
            self._fetch(wanted)
        else:
            self._colour(wanted)

    def _fetch(self, scale: str) -> None:
        if not self._fetching:
            self._fetching = True
            self._say("reading the tokenizer …")
            self._fetch_decoders(scale)

    @work(thread=True)
    def _fetch_decoders(self, scale: str) -> None:
        """Reads the tokenizers in a thread, as it takes seconds, then colours by a scale."""
        try:
            for side in self._sides:
                if not side.is_foreign and side.decoder is None:
                    side.read_decoder()
        except UserError as error:
            self.call_later(self._say, f"{error}; {error.hint}")
        else:
            self.call_later(self._colour, scale)
        finally:
            self._fetching = False

    def _colour(self, scale: str) -> None:
        self._scale = scale
        self._show()

    def action_images(self) -> None:
        """Writes the prompt's images to files, and draws them where the terminal can."""
        active = self.selection.active
        index, row = self.selection.indexes[active], self.selection.rows[active]
        images = () if row is None else index.detail(row).images
        if not images:
            return self._say("this prompt has no images")
        try:
            paths = pictures.write(images)
        except (UserError, OSError) as error:
            return self._say(f"the images cannot be written: {error}")
        self._show()
        assert sys.__stdin__ and sys.__stderr__
        with contextlib.suppress(SuspendNotSupported), self.suspend():
            if self._terminal.draw(images, sys.__stdin__.fileno(), sys.__stderr__.fileno()):
                return None
        self._say(f"written: {', '.join(map(str, paths))}", seconds=10)

    def action_help(self) -> None:
        self.push_screen(keys.Help(pair=len(self._sides) > 1))

    def _say(self, text: str, seconds: float = 4) -> None:
        self.notify(shown(text), timeout=seconds, markup=False)

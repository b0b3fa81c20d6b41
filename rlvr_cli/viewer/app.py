"""Reading rollouts in the terminal."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from rich.segment import Segment
from rich.text import Text
from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, Static

from rlvr_cli.errors import UserError
from rlvr_cli.terminal.escape import shown
from rlvr_cli.viewer import keys, pieces, screen
from rlvr_cli.viewer.index import VERDICTS, Detail, Index, RowFilter
from rlvr_cli.viewer.panes import ListPane, TextPane
from rlvr_cli.viewer.pieces import SCALES, Decoder


class Viewer(App[None]):
    """The prompts on the left, a completion of the chosen one on the right."""

    CSS = keys.CSS
    HORIZONTAL_BREAKPOINTS = [(0, "narrow"), (60, "wide")]  # noqa: RUF012
    AUTO_FOCUS = None
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = keys.BINDINGS

    def __init__(
        self,
        folders: list[Path],
        open_index: Callable[[Path], Index],
        decoder_of: Callable[[Index], Decoder],
    ) -> None:
        super().__init__()
        self._folders, self._folder = folders, len(folders) - 1
        self._open, self._decoder_of = open_index, decoder_of
        self._decoder: Decoder | None = None
        self._pieces: tuple[int, list[str]] = (-1, [])
        self._filter, self._scale, self._fetching = RowFilter(), "", False
        self.row = 0
        self._take(open_index(folders[-1]))

    def _take(self, index: Index) -> None:
        self.index = index
        self._apply_filter(
            self._filter if self._filter.status in (None, *index.statuses) else RowFilter()
        )

    def _apply_filter(self, wanted: RowFilter) -> bool:
        """Applies a filter; False, and no change, if no completion passes."""
        passing_N = self.index.passing(wanted)
        if not passing_N.any():
            return False
        self._filter, self.passing_N = wanted, passing_N
        passing = [p for p in self.index.prompts if passing_N[self.index.rows_of[p]].any()]
        self.prompts = passing
        self._place_of = {p: n for n, p in enumerate(passing)}
        if self.row >= len(self.index) or not passing_N[self.row]:
            self.row = self._first_of(self._nearest())
        return True

    def _nearest(self) -> str:
        """The prompt of the current row, or the next that passes, or the last."""
        at = min(self.row, len(self.index) - 1)
        later = (self.index.prompt_id[n] for n in range(at, len(self.index)) if self.passing_N[n])
        return next(later, self.prompts[-1])

    def _first_of(self, prompt_id: str) -> int:
        return next(row for row in self.index.rows_of[prompt_id] if self.passing_N[row])

    def compose(self) -> ComposeResult:
        yield Static(id="top")
        with Horizontal():
            yield ListPane(self._list_line, id="list")
            with Vertical(id="right"):
                yield Static(id="facts")
                yield TextPane(id="text")
        yield Static(id="legend")
        yield Input(id="search", placeholder="search; Enter", select_on_focus=False)
        yield Static(keys.LINE, id="keys", markup=False)

    def on_mount(self) -> None:
        self.theme = "ansi-dark"
        self.call_after_refresh(self._show)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    def _list_line(self, line: int, width: int, chosen: bool) -> list[Segment]:
        return screen.prompt_line(self.index, self.prompts[line], width, chosen)

    def _show(self) -> None:
        """Draws everything for the row that is shown."""
        detail = self.index.detail(self.row)
        at = self._place_of[detail.prompt_id]
        self.query_one("#top", Static).update(self._title(at))
        self.query_one("#list", ListPane).show(len(self.prompts), at)
        facts = self.query_one("#facts", Static)
        facts.update(screen.facts(self.index, detail, self.passing_N, max(20, facts.size.width)))
        text = screen.text(detail, self._pieces_of(detail), self._scale or None)
        marks = screen.places(text.text, shown(self._filter.text))
        self.query_one("#text", TextPane).show(text, marks)
        legend = self.query_one("#legend", Static)
        legend.display = bool(self._scale)
        if self._scale:
            legend.update(screen.legend(self._scale))

    def _title(self, at: int) -> Text:
        folder = shown(str(self._folders[self._folder]))
        rows = int(self.passing_N.sum())
        text = f" prompt {at + 1:,} of {len(self.prompts):,}, {rows:,} completions"
        if words := self._filter.words():
            text += f": {shown(', '.join(words))}"
        room = self.size.width - len(text) - 3
        folder = folder if len(folder) <= room else "…" + folder[1 - room :] if room > 8 else ""
        return Text(f"{text}  {folder}", no_wrap=True, overflow="ellipsis", end="")

    def _pieces_of(self, detail: Detail) -> list[str] | None:
        """The text of each token, decoded when it is first wanted."""
        if not self._scale or detail.token_ids is None or self._scale not in detail.values:
            return None
        if self._pieces[0] != self.row:
            assert self._decoder is not None
            self._pieces = self.row, pieces.decode(self._decoder, detail.token_ids)
        return self._pieces[1]

    def action_prompt(self, by: int) -> None:
        at = self._place_of[self.index.prompt_id[self.row]] + by
        if 0 <= at < len(self.prompts):
            self._go(self._first_of(self.prompts[at]))

    def action_edge(self, end: int) -> None:
        self._go(self._first_of(self.prompts[end]))

    def action_sample(self, by: int) -> None:
        rows = [r for r in self.index.rows_of[self.index.prompt_id[self.row]] if self.passing_N[r]]
        at = rows.index(self.row) + by
        if 0 <= at < len(rows):
            self._go(rows[at])

    def action_row(self, by: int) -> None:
        rows = np.flatnonzero(self.passing_N)
        at = int(np.searchsorted(rows, self.row)) + by
        if 0 <= at < len(rows):
            self._go(int(rows[at]))

    def _go(self, row: int) -> None:
        self.row = row
        self._show()

    @on(ListPane.Chosen)
    def _clicked(self, event: ListPane.Chosen) -> None:
        self._go(self._first_of(self.prompts[event.line]))

    def action_scroll(self, by: int) -> None:
        pane = self.query_one("#text", TextPane)
        pane.scroll_relative(y=by * max(1, pane.size.height - 1), animate=False)

    def action_folder(self, by: int) -> None:
        """Another evaluation of the same run, at the same prompt and sample if it has them."""
        at = self._folder + by
        if not 0 <= at < len(self._folders):
            return self._say("there is no other evaluation that way")
        try:
            index = self._open(self._folders[at])
        except UserError as error:
            return self._say(str(error))
        prompt_id, sample = self.index.prompt_id[self.row], self.index.sample_N[self.row]
        self._folder, self._decoder, self._pieces = at, None, (-1, [])
        alike = [r for r in index.rows_of.get(prompt_id, []) if index.sample_N[r] == sample]
        self.row = alike[0] if alike else 0
        scale, self._scale = self._scale, ""
        self._take(index)
        self._show()
        if scale:
            self._fetch(scale)

    def action_search(self) -> None:
        field = self.query_one("#search", Input)
        field.display = True
        field.value = self._filter.text
        field.focus()

    @on(Input.Submitted)
    def _search(self, event: Input.Submitted) -> None:
        self.action_leave()
        self._choose(dataclasses.replace(self._filter, text=event.value))

    def action_leave(self) -> None:
        field = self.query_one("#search", Input)
        field.display = False
        self.set_focus(None)

    def action_verdict(self) -> None:
        self._cycle("verdict", self._filter.verdict, [None, *VERDICTS])

    def action_truncated(self) -> None:
        self._cycle("truncated", self._filter.truncated, [None, True, False])

    def action_status(self) -> None:
        self._cycle("status", self._filter.status, [None, *self.index.statuses])

    def action_clear(self) -> None:
        self._choose(RowFilter())

    def _cycle(self, name: str, value: Any, ring: list[Any]) -> None:
        """The next value in the ring that some completion passes; at last the current one."""
        for _ in ring:
            value = ring[(ring.index(value) + 1) % len(ring)]
            if self._choose(dataclasses.replace(self._filter, **{name: value})):
                return

    def _choose(self, wanted: RowFilter) -> bool:
        """Changes the filter, or reports that no completion would be left."""
        if not self._apply_filter(wanted):
            self._say(f"no completion is {', '.join(wanted.words())}")
            return False
        self._show()
        return True

    def action_colour(self) -> None:
        known = [s for s in SCALES if s in self.index.detail(self.row).values]
        if not known:
            return self._say("no log-probs of these tokens: `rlvr logprob` computes them")
        ring = ["", *known]
        wanted = ring[(ring.index(self._scale) + 1) % len(ring)] if self._scale in ring else ""
        if wanted and self._decoder is None:
            self._fetch(wanted)
        else:
            self._colour(wanted)

    def _fetch(self, scale: str) -> None:
        if not self._fetching:
            self._fetching = True
            self._say("reading the tokenizer …")
            self._fetch_decoder(scale)

    @work(thread=True)
    def _fetch_decoder(self, scale: str) -> None:
        """Reads the tokenizer in a thread, as it takes seconds, then colours by a scale."""
        index = self.index
        try:
            decoder = self._decoder_of(index)
        except UserError as error:
            self.call_from_thread(self._say, f"{error}; {error.hint}")
        else:
            if index is self.index:
                self._decoder = decoder
                self.call_from_thread(self._colour, scale)
        finally:
            self._fetching = False

    def _colour(self, scale: str) -> None:
        self._scale = scale
        self._show()

    def action_help(self) -> None:
        self.push_screen(keys.Help())

    def _say(self, text: str) -> None:
        self.notify(shown(text), timeout=4, markup=False)

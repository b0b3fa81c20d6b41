"""An app of the viewer, driven by keys in 80 columns and 24 lines."""

import asyncio
import contextlib
import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from rlvr_cli.viewer.start import Side


class Screen:
    """What the app shows, as text."""

    def __init__(self, app, pilot) -> None:
        self.app, self.pilot = app, pilot

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        """Searches for a text."""
        await self.ask("slash", text)

    async def ask(self, key: str, text: str) -> None:
        await self.press(key)
        self.app.query_one("#ask").value = text
        await self.press("enter")
        await self.settle()

    async def settle(self) -> None:
        """Waits for what is done in threads, such as a search."""
        await self.app.workers.wait_for_complete()
        await self.pilot.pause()

    def text(self, name: str) -> str:
        pane = self._pane(name)
        if name.startswith(("#list", "#text")):
            lines = (pane.render_line(y) for y in range(pane.size.height))
            return "\n".join(line.text.rstrip() for line in lines).rstrip()
        return str(pane.content)

    def _pane(self, name: str):
        alone = name in ("#facts", "#text")
        return self.app.query_one(f"{name}-0" if alone else name)

    def is_shown(self, name: str) -> bool:
        return self._pane(name).size.width > 0

    def styles(self, name: str) -> list[tuple[str, object]]:
        pane = self._pane(name)
        lines = (pane.render_line(y) for y in range(pane.size.height))
        return [(s.text, s.style) for line in lines for s in line if s.text.strip()]

    @property
    def said(self) -> list[str]:
        return [note.message for note in self.app._notifications]

    @property
    def key(self) -> tuple[str, int]:
        """The prompt, and the sample of the active side."""
        chosen = self.app.selection
        row = chosen.rows[chosen.active]
        return chosen.names[chosen.at], int(chosen.indexes[chosen.active].sample_N[row])


def _notify(notify, message, **options) -> None:
    """Says something that stays until it has been looked at."""
    notify(message, **options | {"timeout": 600})


@pytest.fixture
def view():
    """Opens a directory, files or two of them, and hands the screen to an async function."""

    def run(
        path: Path | list[Path], act: Callable, *, size=(80, 24), model: str | None = None
    ) -> None:
        from rlvr_cli.viewer.app import Viewer

        async def drive() -> None:
            paths = path if isinstance(path, list) else [path]
            app = Viewer([Side(one, model, {}) for one in paths])
            app.notify = functools.partial(_notify, app.notify)
            async with app.run_test(size=size) as pilot:
                screen = Screen(app, pilot)
                await pilot.pause()
                await screen.settle()
                await act(screen)

        with contextlib.closing(asyncio.new_event_loop()) as loop:
            loop.run_until_complete(drive())

    return run


@pytest.fixture
def imported(jsonl, rlvr, tmp_path):
    """Imports completions of prompts; the folder with their directories."""

    def make(texts: dict[str, list], *words: str, **columns: object) -> Path:
        rows = [
            {"id": prompt_id, "prompt": f"{prompt_id}?", "answer": "gold", "completion": text,
             "correct": correct, **columns}
            for prompt_id, found in texts.items() for text, correct in found
        ]  # fmt: skip
        assert rlvr("import", jsonl(*rows), "--out", tmp_path / "i", *words).code == 0
        return tmp_path / "i"

    return make

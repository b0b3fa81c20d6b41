"""An app of the viewer, driven by keys in 80 columns and 24 lines."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from rlvr_cli.storage import lineage
from rlvr_cli.viewer import start
from rlvr_cli.viewer.index import Index


class Screen:
    """What the app shows, as text."""

    def __init__(self, app, pilot) -> None:
        self.app, self.pilot = app, pilot

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def type(self, text: str) -> None:
        await self.press("slash")
        field = self.app.query_one("#search")
        field.value = text
        await self.press("enter")

    def text(self, name: str) -> str:
        pane = self.app.query_one(name)
        if name in ("#list", "#text"):
            lines = (pane.render_line(y) for y in range(pane.size.height))
            return "\n".join(line.text.rstrip() for line in lines).rstrip()
        return str(pane.content)

    def styles(self, name: str) -> list[tuple[str, object]]:
        pane = self.app.query_one(name)
        lines = (pane.render_line(y) for y in range(pane.size.height))
        return [(s.text, s.style) for line in lines for s in line if s.text.strip()]

    @property
    def key(self) -> tuple[str, int]:
        index = self.app.index
        return index.prompt_id[self.app.row], int(index.sample_N[self.app.row])


@pytest.fixture
def view():
    """Opens a directory and hands its screen to an async function."""

    def run(path: Path, act: Callable, *, size=(80, 24), model: str | None = None) -> None:
        from rlvr_cli.viewer.app import Viewer

        async def drive() -> None:
            app = Viewer(
                start.folders_of(path),
                lambda folder: Index(lineage.find(folder)),
                lambda index: start.decoder(index, path, model),
            )
            async with app.run_test(size=size) as pilot:
                await pilot.pause()
                await act(Screen(app, pilot))

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

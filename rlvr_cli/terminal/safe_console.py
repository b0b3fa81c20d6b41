"""A console of rich on which no text that it is given does more than to be read."""

from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from rlvr_cli.terminal.escape import shown


class SafeConsole(Console):
    """Prints text as it is written: no markup, no emoji codes, control characters made visible.

    Styles come only from the code. A link of a style would be an escape sequence with text of
    data in it, and is left out.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    @property
    def file(self) -> IO[str]:
        """The stream below the one that makes the text of others safe."""
        stream = super().file
        below: IO[str] = getattr(stream, "unguarded", stream)
        return below

    @file.setter
    def file(self, stream: IO[str]) -> None:
        self._file = stream

    def render_str(self, text: str, **how: Any) -> Text:
        return super().render_str(shown(text), **how)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else _safe(segment)

    def on_broken_pipe(self) -> None:
        raise  # rich calls this where it handles the error, and would exit


def _safe(segment: Segment) -> Segment:
    style = segment.style
    if style is not None and style.link:
        style = style.update_link(None)
    return Segment(shown(segment.text), style)

"""One colour for each run and each line, the same in all plots of a page."""

from collections.abc import Sequence

from rlvr_cli.report.drawing import SERIES
from rlvr_cli.report.figures import DASHES, Mark
from rlvr_cli.report.sources import ReportSource
from rlvr_cli.report.subject import Subject


class Palette:
    """Marks by name: runs and sets of completions first, then lines in order of first use.

    Six colours; beyond them a colour comes again with another dash.
    """

    def __init__(self, subjects: Sequence[Subject], sources: Sequence[ReportSource]) -> None:
        self._index: dict[tuple[str, str], int] = {}
        for name in (*(s.name for s in subjects), *(s.name for s in sources if s.run)):
            self.run(name)

    def run(self, name: str) -> Mark:
        """The mark of a run or of a set of scored completions."""
        return self._mark("run", name)

    def line(self, name: str) -> Mark:
        """The mark of a line that is no run: a value of k, or a source of prompts."""
        return self._mark("line", name)

    def _mark(self, kind: str, name: str) -> Mark:
        index = self._index.setdefault((kind, name), len(self._index))
        again = index // len(SERIES)
        return Mark(SERIES[index % len(SERIES)], (index + again) % len(DASHES))

"""Which completions and prompts are shown, and in which order they may be.

Shapes: N completions.
"""

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlvr_cli.viewer.index import RIGHT, UNKNOWN, WRONG, Index

VERDICTS = {"right": RIGHT, "wrong": WRONG, "no verdict": UNKNOWN}
GROUPS = ("partly right", "all right", "never right")
PAIR_GROUPS = ("gained", "lost", "in both", "in one alone")
ORDERS = ("file", "pass rate", "length", "truncated", "id")
PAIR_ORDERS = (
    "file",
    "difference",
    "pass rate of A",
    "pass rate of B",
    "length",
    "truncated",
    "id",
)


@dataclass(frozen=True)
class RowFilter:
    """Which completions and prompts to show; None and "" let all pass."""

    verdict: str | None = None  # a key of VERDICTS
    truncated: bool | None = None
    status: str | None = None
    group: str | None = None  # of GROUPS or PAIR_GROUPS
    text: str = ""

    def words(self) -> list[str]:
        """What it lets pass, in words."""
        cut = {None: None, True: "truncated", False: "not truncated"}[self.truncated]
        status = self.status and f"status {self.status}"
        text = f"“{self.text}”" if self.text else None
        return [word for word in (self.group, self.verdict, cut, status, text) if word]


def passing_rows(index: Index, wanted: RowFilter) -> np.ndarray:
    """Whether each row of an index passes, but for the filter's group [N]."""
    pass_N = np.ones(len(index), dtype=bool)
    if wanted.verdict:
        pass_N &= index.verdict_N == VERDICTS[wanted.verdict]
    if wanted.truncated is not None:
        pass_N &= index.cut_N == wanted.truncated
    if wanted.status:
        known = wanted.status in index.statuses
        place = index.statuses.index(wanted.status) if known else -1
        pass_N &= index.status_N == place
    if wanted.text:
        pass_N &= index.holding(wanted.text)
    return pass_N


def without_status(wanted: RowFilter, indexes: Sequence[Index]) -> RowFilter:
    """The filter, less a status that no index knows."""
    known = {status for index in indexes for status in index.statuses}
    return wanted if wanted.status in (None, *known) else dataclasses.replace(wanted, status=None)


def natural(name: str) -> list[tuple[int, str]]:
    """A key by which `p9` comes before `p10`."""
    pieces = re.split(r"([0-9]+)", name.casefold())
    return [(len(t.lstrip("0")), t.lstrip("0")) if n % 2 else (0, t) for n, t in enumerate(pieces)]

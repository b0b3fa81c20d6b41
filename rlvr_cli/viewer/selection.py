"""The prompts that are shown of one index or two, their order, and the current position.

Shapes: S sides (one or two), N completions of a side, P prompts of all sides together.
"""

import functools
from collections.abc import Sequence

import numpy as np

from rlvr_cli.viewer.filters import (
    GROUPS,
    ORDERS,
    PAIR_GROUPS,
    PAIR_ORDERS,
    RowFilter,
    natural,
    passing_rows,
)
from rlvr_cli.viewer.index import Index


class Selection:
    """The prompts of the sides that pass a filter, in an order, and the completion of each side.

    A prompt of one side matches one of the other if both have the same id and, if ids are
    ambiguous, the same source. `unlike` says whether text or gold differ.
    """

    def __init__(self, indexes: Sequence[Index]) -> None:
        self.indexes = list(indexes)
        self.filter, self.order, self.down = RowFilter(), "file", False
        self.active = self.at = 0
        self.rows: list[int | None] = [None] * len(self.indexes)
        self._join()
        self._apply(self.filter)
        self.go(0)

    def _join(self) -> None:
        """Names all prompts, and finds the number that each has in each side."""
        with_sources = any(index.needs_sources for index in self.indexes)
        named = [index.names(with_sources=with_sources) for index in self.indexes]
        self.names = list(dict.fromkeys(name for names in named for name in names))
        self._number = {name: number for number, name in enumerate(self.names)}
        self.place_SP = np.full((len(named), len(self.names)), -1)
        self._union_S = [np.array([self._number[n] for n in names], int) for names in named]
        for side, union_P in enumerate(self._union_S):
            self.place_SP[side, union_P] = np.arange(len(union_P))
        self.__dict__.pop("unlike", None)

    @functools.cached_property
    def unlike(self) -> set[int]:
        """Prompts that both sides have by name, with other texts or golds."""
        if len(self.indexes) == 1:
            return set()
        differing = set()
        for prompt in np.flatnonzero((self.place_SP >= 0).all(axis=0)).tolist():
            asked = [i.asked(int(self.place_SP[s, prompt])) for s, i in enumerate(self.indexes)]
            if any(None not in pair and pair[0] != pair[1] for pair in zip(*asked, strict=True)):
                differing.add(prompt)
        return differing

    def replace(self, side: int, index: Index, *, grown: bool = False) -> None:
        """Takes another index; of one that has `grown` the rows are the same, and more.

        Otherwise the prompt stays, and the sample where the new index has it.
        """
        name, row, old = self.names[self.at], self.rows[side], self.indexes[side]
        kept = self.rows[self.active] if grown else None
        sample = None if row is None else int(old.sample_N[row])
        self.indexes[side] = index
        self._join()
        if kept is not None:
            at = int(self._union_S[self.active][self.indexes[self.active].prompt_N[kept]])
        else:
            at = self._number.get(name, 0)
        self.at = at
        if not self._apply(self.filter):
            self._apply(RowFilter())
        if grown and at == self.at:
            if row is None:
                self.rows[side] = self._first(side)
            return
        self.go(self.at)
        rows = self.rows_of(side)
        alike = [r for r in rows if int(index.sample_N[r]) == sample]
        if alike and self.at == at:
            self.rows[side] = alike[0]

    def choose(self, wanted: RowFilter) -> bool:
        """Changes the filter; False, and no change, if no completion passes."""
        if not self._apply(wanted):
            return False
        for side, row in enumerate(self.rows):
            if row is None or not self.passing[side][row]:
                self.rows[side] = self._first(side)
        return True

    def _apply(self, wanted: RowFilter) -> bool:
        passing = [passing_rows(index, wanted) for index in self.indexes]
        has_P = np.zeros(len(self.names), bool)
        for side, index in enumerate(self.indexes):
            has_P[self._union_S[side][index.prompt_N[passing[side]]]] = True
        kept_P = has_P & self._grouped(wanted.group)
        if not kept_P.any():
            return False
        self.filter, self.passing, self._kept_P = wanted, passing, kept_P
        self._sort()
        if not kept_P[self.at]:
            kept = np.flatnonzero(kept_P)
            later = int(np.searchsorted(kept, self.at))
            self.go(int(kept[min(later, len(kept) - 1)]))
        return True

    def _grouped(self, group: str | None) -> np.ndarray:
        """Which prompts are of a group [P]."""
        rate_SP = np.stack([self.by_prompt(side, "rate") for side in range(len(self.indexes))])
        both_P = (self.place_SP >= 0).all(axis=0)
        if group in ("gained", "lost"):
            rate_SP[:, list(self.unlike)] = np.nan
        groups = {
            "partly right": ((rate_SP > 0) & (rate_SP < 1)).any(axis=0),
            "all right": (rate_SP == 1).all(axis=0),
            "never right": (rate_SP == 0).all(axis=0),
            "gained": (rate_SP[0] == 0) & (rate_SP[-1] > 0),
            "lost": (rate_SP[0] > 0) & (rate_SP[-1] == 0),
            "in both": both_P,
            "in one alone": ~both_P,
        }
        group_P: np.ndarray = groups.get(str(group), np.ones(len(self.names), bool))
        return group_P

    def by_prompt(self, side: int, what: str) -> np.ndarray:
        """A figure of each prompt on one side, NaN where it has none [P]."""
        index = self.indexes[side]
        if what == "length":
            value_P = np.bincount(index.prompt_N, index.length_N) / index.n_P
        else:
            value_P = {"rate": index.rate_P, "truncated": index.cut_P}[what]
        place_P = self.place_SP[side]
        out_P: np.ndarray = np.where(place_P >= 0, value_P[np.maximum(place_P, 0)], np.nan)
        return out_P

    def difference_P(self) -> np.ndarray:
        """Pass rate of B less that of A; NaN where the two do not have the same prompt."""
        difference_P: np.ndarray = self.by_prompt(1, "rate") - self.by_prompt(0, "rate")
        difference_P[list(self.unlike)] = np.nan
        return difference_P

    def _sort(self) -> None:
        """Sorts the prompts that pass; those without a figure are last in either direction."""
        kept = np.flatnonzero(self._kept_P)
        if self.order == "file":
            kept = kept[::-1] if self.down else kept
        elif self.order == "id":
            ordered = sorted(kept.tolist(), key=lambda p: natural(self.names[p]), reverse=self.down)
            kept = np.array(ordered)
        else:
            value_P = self._figure()[kept]
            kept = kept[np.argsort(-value_P if self.down else value_P, kind="stable")]
        self.shown: list[int] = kept.tolist()
        self._line = {prompt: line for line, prompt in enumerate(self.shown)}

    def _figure(self) -> np.ndarray:
        if self.order == "difference":
            return self.difference_P()
        if self.order.startswith("pass rate"):
            return self.by_prompt(int(self.order.endswith("B")), "rate")
        values = [self.by_prompt(side, self.order) for side in range(len(self.indexes))]
        value_P = values[0]
        for other_P in values[1:]:
            value_P = np.where(np.isnan(value_P), other_P, np.fmax(value_P, other_P))
        return value_P

    def sort(self, order: str, *, down: bool) -> None:
        """Sorts by one of the orders, and goes to the first prompt."""
        self.order, self.down = order, down
        self._sort()
        self.go(self.shown[0])

    @property
    def orders(self) -> tuple[str, ...]:
        return ORDERS if len(self.indexes) == 1 else PAIR_ORDERS

    @property
    def groups(self) -> tuple[str, ...]:
        return GROUPS if len(self.indexes) == 1 else (*GROUPS, *PAIR_GROUPS)

    @property
    def completions(self) -> int:
        """How many completions pass, of all sides together."""
        kept = (self._kept_P[union_P] for union_P in self._union_S)
        pairs = zip(self.indexes, self.passing, kept, strict=True)
        return sum(int((passing & kept_P[i.prompt_N]).sum()) for i, passing, kept_P in pairs)

    @property
    def line(self) -> int:
        """The place of the prompt among those shown."""
        return self._line[self.at]

    def go(self, prompt: int, *, last: bool = False) -> None:
        """Goes to a prompt, and to its first completion on each side, or its last."""
        self.at = prompt
        self.rows = [self._first(side, last=last) for side in range(len(self.indexes))]
        if self.rows[self.active] is None:
            self.active = 1 - self.active

    def rows_of(self, side: int) -> list[int]:
        """The completions of the prompt that pass; all of them where none does."""
        place = int(self.place_SP[side, self.at])
        if place < 0:
            return []
        rows = self.indexes[side].rows_of(place)
        passing = rows[self.passing[side][rows]]
        chosen: list[int] = (passing if len(passing) else rows).tolist()
        return chosen

    def _first(self, side: int, *, last: bool = False) -> int | None:
        rows = self.rows_of(side)
        return rows[-1 if last else 0] if rows else None

    def step(self, by: int) -> None:
        """The next prompt, or the one before."""
        line = self.line + by
        if 0 <= line < len(self.shown):
            self.go(self.shown[line])

    def sample(self, by: int) -> bool:
        """The next completion of the prompt on the active side; False if there is none."""
        rows, row = self.rows_of(self.active), self.rows[self.active]
        at = (rows.index(row) if row in rows else 0) + by
        if not 0 <= at < len(rows):
            return False
        self.rows[self.active] = rows[at]
        return True

    def row(self, by: int) -> None:
        """The next completion of all, in the order of the prompts, or the one before."""
        line = self.line + by
        if not self.sample(by) and 0 <= line < len(self.shown):
            self.go(self.shown[line], last=by < 0)

    def other_side(self) -> bool:
        """Makes the other side the active one; False if it has nothing here."""
        if len(self.rows) == 1 or self.rows[1 - self.active] is None:
            return False
        self.active = 1 - self.active
        return True

    def jump(self, text: str) -> bool:
        """Goes to the prompt that a text names, lifting the filter if it hides it.

        `#12` is the twelfth prompt shown. Else the first that fits: the id or name itself, a
        number of a line, the beginning of an id, a part of one.
        """
        prompt = self._named(text.strip())
        if prompt is None:
            return False
        if prompt not in self._line:
            self._apply(RowFilter())
        self.go(prompt)
        return True

    def _named(self, text: str) -> int | None:
        number = text.removeprefix("#")
        line = int(number) - 1 if number.isascii() and number.isdecimal() else -1
        numbered = self.shown[line] if 0 <= line < len(self.shown) else None
        if text.startswith("#") and numbered is not None:
            return numbered
        if not text:
            return None
        if text in self._number:
            return self._number[text]
        folded = [name.casefold() for name in self.names]
        wanted = text.casefold()
        ends = [n for n, name in enumerate(folded) if name.endswith("/" + wanted)]
        if ends or numbered is not None:
            return ends[0] if ends else numbered
        starts = [n for n, name in enumerate(folded) if name.startswith(wanted)]
        inside = [n for n, name in enumerate(folded) if wanted in name]
        return next(iter([*starts, *inside]), None)

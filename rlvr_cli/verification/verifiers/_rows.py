"""Whether two queries return the same: rows, as rlvr, BIRD and Spider compare them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Row = tuple[Any, ...]
_TRIES = 5_000  # columns that are put in a place, while one for each is looked for


class TooManyColumns(Exception):
    """Columns are so much alike that their order is ambiguous."""


@dataclass(frozen=True)
class Rows:
    """What a gold query returns; `ends` are where rows end that its ORDER BY holds equal."""

    rows: list[Row]
    ends: list[int]


def same_rows(gold: Rows, rows: list[Row], *, ordered: bool) -> bool:
    """Equal as multisets, numbers to nine digits, and in the order that the gold asks for."""
    left, right = [_plain(row) for row in gold.rows], [_plain(row) for row in rows]
    if not ordered:
        return Counter(left) == Counter(right)
    starts = [0, *gold.ends[:-1]] if gold.ends else []
    return len(left) == len(right) and all(
        left[start:end] == right[start:end] or Counter(left[start:end]) == Counter(right[start:end])
        for start, end in zip(starts, gold.ends, strict=True)
    )


def same_set(gold: Rows, rows: list[Row]) -> bool:
    """As BIRD: equal as sets, whatever their order and how often a row is there."""
    return set(gold.rows) == set(rows)


def same_denotation(gold: Rows, rows: list[Row], *, ordered: bool) -> bool:
    """As Spider's test suites: equal as multisets, or as lists, for some order of the columns."""
    if not gold.rows or not rows:
        return len(gold.rows) == len(rows)
    if len(gold.rows) != len(rows) or len(gold.rows[0]) != len(rows[0]):
        return False
    return _placed(list(zip(*gold.rows, strict=True)), list(zip(*rows, strict=True)), ordered)


def _placed(left: list[Row], right: list[Row], ordered: bool) -> bool:
    """Whether some order of the columns of `right` makes its rows those of `left`."""
    tries = 0
    waiting: list[tuple[int, ...]] = [()]
    while waiting:
        placed = waiting.pop()
        if len(placed) == len(left):
            return True
        for column in range(len(right)):
            if column in placed:
                continue
            tries += 1
            if tries > _TRIES:
                raise TooManyColumns
            order = (*placed, column)
            if _match(left[: len(order)], [right[place] for place in order], ordered):
                waiting.append(order)
    return False


def _match(left: Sequence[Row], right: Sequence[Row], ordered: bool) -> bool:
    if ordered:
        return left[-1] == right[-1]
    return Counter(zip(*left, strict=True)) == Counter(zip(*right, strict=True))


def _plain(row: Row) -> Row:
    """A row in which numbers that differ only by rounding are one."""
    return tuple(_rounded(value) if isinstance(value, float) else value for value in row)


def _rounded(value: float) -> float:
    """To nine digits, or to cents where that is finer: a large sum is an integer of equal value."""
    return round(value, 2) if 1e9 <= abs(value) < 1e13 else float(f"{value:.9g}")

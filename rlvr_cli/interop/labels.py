"""Verdicts and rewards as other tools write them.

Shapes: N values of a column, U different ones.
"""

import math
from collections.abc import Callable, Container, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.config import Columns
from rlvr_cli.errors import DataError

Place = Callable[[int], str]  # where the value of this index is, in the words of an error

TRUE, RIGHT, WRONG, MINUS, GRADED = "true/false", "1", "0", "-1", "graded"
_WORDS = {
    **{"true": (TRUE, 1.0), "false": (TRUE, 0.0)},
    **{word: ("pass/fail", 1.0) for word in ("pass", "passed")},
    **{word: ("pass/fail", 0.0) for word in ("fail", "failed")},
    **{"yes": ("yes/no", 1.0), "no": ("yes/no", 0.0)},
    **{"correct": ("correct/incorrect", 1.0), "incorrect": ("correct/incorrect", 0.0)},
    **{"right": ("right/wrong", 1.0), "wrong": ("right/wrong", 0.0)},
}
# Inspect's: correct, incorrect, partly correct, no answer; with the values that it gives them.
_LETTERS = {"C": ("C/I", 1.0), "I": ("C/I", 0.0), "P": (GRADED, 0.5), "N": ("C/I", 0.0)}
_NUMBERS = {1.0: RIGHT, 0.0: WRONG, -1.0: MINUS}
_NOTHING = ("", "nan", "none", "null", "<na>")
_TOGETHER = ({RIGHT, WRONG, TRUE}, {RIGHT, MINUS})
ABOVE = "say what score is right, as in --correct-above 0.5, or name another column with "


class Verdicts:
    """Reads the verdicts of one column, a batch at a time; all must be in the same words.

    1, "1.0", true and similar values are right, 0 and false wrong, as is -1 in a column of only 1
    and -1, and the second of each pair of words (`pass/fail`). With a threshold, any number above
    it is right, any other wrong.
    """

    def __init__(self, name: str, above: float | None = None) -> None:
        self._name = name
        self._above = above
        self._seen: dict[str, str] = {}  # the first value of each way to write verdicts

    def read(self, values: Any, place: Place) -> np.ndarray:
        """1, 0 or -1 where nothing is known, int8 [N]; an error that names the first bad value."""
        if isinstance(values, pa.Array) and pa.types.is_boolean(values.type):
            self._together(TRUE, "true", place, 0)
            numbers = pc.cast(values, pa.int8())
            filled = pc.fill_null(numbers, -1) if numbers.null_count else numbers
            truth_N: np.ndarray = filled.to_numpy()
            return truth_N
        value_U, index_N = _different(values)
        parsed = [_verdict(value) for value in value_U]
        if self._above is None:
            self._check(value_U, parsed, index_N, place)
            known = [-1 if p is None or math.isnan(p[1]) else int(p[1] == 1) for p in parsed]
        else:
            self._check_numbers(value_U, parsed, index_N, place)
            known = [
                -1 if p is None or math.isnan(p[1]) else int(p[1] > self._above) for p in parsed
            ]
        truth_N = np.array(known, dtype=np.int8)[index_N]
        return truth_N

    def _check(self, value_U: list[Any], parsed: list[Any], index_N: Any, place: Place) -> None:
        """An error for a value that is no verdict, and for one in other words than the others."""
        first_U = _first(index_N, len(value_U))
        for at in sorted(range(len(value_U)), key=lambda u: first_U[u]):
            written = parsed[at]
            if first_U[at] < 0 or (
                written and (written[0] in self._seen or math.isnan(written[1]))
            ):
                continue
            if written and written[0] != GRADED:
                self._together(written[0], str(value_U[at])[:40], place, first_U[at])
            if written and written[1] in (0, 1, -1):
                continue
            shown = f"{place(first_U[at])} has `{self._name}` = `{str(value_U[at])[:40]}`"
            if written:
                raise DataError(f"{shown}, neither right nor wrong", f"{ABOVE}--correct-column")
            raise DataError(
                f"{shown}, which is not a verdict",
                "write true or false, or name another column with --correct-column",
            )

    def _together(self, way: str, value: str, place: Place, at: int) -> None:
        self._seen.setdefault(way, value)
        ways = set(self._seen)
        if len(ways) == 1 or any(ways <= allowed for allowed in _TOGETHER):
            return
        other = next(seen for name, seen in self._seen.items() if name != way)
        if MINUS in ways:
            hint = f"say from where on it is right: --correct-column {self._name} --correct-above 0"
        else:
            hint = "write all in the same words, or name another column with --correct-column"
        raise DataError(
            f"{place(at)} has `{self._name}` = `{value}`, and others have `{other}`", hint
        )

    def _check_numbers(
        self, value_U: list[Any], parsed: list[Any], index_N: Any, place: Place
    ) -> None:
        first_U = _first(index_N, len(value_U))
        bad = [first_U[u] for u, p in enumerate(parsed) if p is None and first_U[u] >= 0]
        if bad:
            value = str(value_U[int(index_N[min(bad)])])[:40]
            raise DataError(
                f"{place(min(bad))} has `{self._name}` = `{value}`, which is not a number",
                "--correct-above takes numbers: name a column of them with --correct-column",
            )


def _verdict(value: Any) -> tuple[str, float] | None:
    """How a verdict is written, and its number; NaN where nothing is known, None for others."""
    if value is None:
        return "", math.nan
    if isinstance(value, list | dict):
        return None
    text = str(value).strip()
    if verdict := _LETTERS.get(text) or _WORDS.get(text.lower()):
        return verdict
    if text.lower() in _NOTHING:
        return "", math.nan
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isinf(number) else (_NUMBERS.get(number, GRADED), number)


class Judge:
    """Decides which completions of a file are correct, by its verdicts or by its rewards."""

    def __init__(self, columns: Columns) -> None:
        self.graded = False  # rewards that are no verdicts were to say what is correct
        self._named = columns.correct
        self._above = columns.correct_above
        self._verdicts: Verdicts | None = None
        self._rewards: set[float] = set()

    def used(self, there: Container[str]) -> str:
        """The rewards where a threshold is given and no column; else verdicts, then rewards."""
        if self._above is not None and not self._named and "reward" in there:
            return "reward"
        return "correct" if "correct" in there else "reward"

    def read(
        self, columns: Mapping[str, Any], shown: Callable[[str], str], place: Place
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """The verdicts and the rewards of a batch, None where the file has none.

        `shown` is what the file calls a column.
        """
        correct = reward = None
        if "correct" in columns and self.used(columns) == "correct":
            self._verdicts = self._verdicts or Verdicts(shown("correct"), self._above)
            correct = self._verdicts.read(columns["correct"], place)
        if "reward" in columns:
            reward = numbers(columns["reward"], shown("reward"), place)
        if reward is not None and correct is None and not self._named:
            if self._above is None:
                self.graded = are_graded(reward, self._rewards) or self.graded
            right_N = reward == 1 if self._above is None else reward > self._above
            correct = np.where(np.isnan(reward), -1, right_N).astype(np.int8)
        return correct, reward


def numbers(values: Any, name: str, place: Place) -> np.ndarray:
    """Finite numbers, NaN where there is none, float64 [N]; an error for any other value."""

    def parse(value: Any) -> float | None:
        if value is None or value == "":
            return math.nan
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):  # the last of an integer of 400 digits
            return None
        return None if math.isinf(number) else number

    value_U, index_N = _different(values)
    parsed = [parse(value) for value in value_U]
    first_U = _first(index_N, len(value_U)) if None in parsed else []
    bad = [first for p, first in zip(parsed, first_U, strict=False) if p is None and first >= 0]
    if bad:
        value = str(value_U[int(index_N[min(bad)])])[:40]
        raise DataError(
            f"{place(min(bad))} has `{name}` = `{value}`, which is not a finite number",
            "write one, or name another column with --reward-column",
        )
    number_N: np.ndarray = np.array([math.nan if p is None else p for p in parsed])[index_N]
    return number_N


def are_graded(number_N: np.ndarray, before: set[float]) -> bool:
    """Whether rewards are no verdicts: neither 0 and 1 nor -1 and 1. `before` are earlier ones."""
    known_U = np.unique(number_N[~np.isnan(number_N)])
    if not np.isin(known_U, (-1, 0, 1)).all():
        return True
    before.update(known_U.tolist())
    return {0.0, -1.0} <= before


def _different(values: Any) -> tuple[list[Any], np.ndarray]:
    """The different values, and of each value which it is; those of lists one by one."""
    if not isinstance(values, pa.Array):
        return values, np.arange(len(values))
    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    size = len(encoded.dictionary)
    indices = pc.fill_null(encoded.indices, size).to_numpy(zero_copy_only=False)
    return [*encoded.dictionary.to_pylist(), None], indices


def _first(index_N: np.ndarray, size: int) -> list[int]:
    """The first place of each different value, -1 of those that do not occur."""
    first_U = np.full(size, -1, dtype=np.int64)
    first_U[index_N[::-1]] = np.arange(len(index_N))[::-1]
    indices: list[int] = first_U.tolist()
    return indices

"""Verdicts and rewards as other tools write them.

Shapes: N values of a column.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.errors import DataError

_WORDS = {"true": 1, "1": 1, "1.0": 1, "false": 0, "0": 0, "0.0": 0}
_NOTHING = ("", "nan", "none", "null")


def truths(values: Any, name: str, path: Path, before: int) -> np.ndarray:
    """1, 0 or -1 where nothing is known, int8 [N]; an error that names the first other value."""
    if isinstance(values, pa.Array) and pa.types.is_boolean(values.type):
        numbers = pc.cast(values, pa.int8())
        filled = pc.fill_null(numbers, -1) if numbers.null_count else numbers
        truth_N: np.ndarray = filled.to_numpy()
        return truth_N

    def parse(value: Any) -> int | None:
        if value is None or isinstance(value, bool):
            return -1 if value is None else int(value)
        word = str(value).strip().lower()
        return -1 if word in _NOTHING else _WORDS.get(word)

    hint = "write true or false, or name another column with --correct-column"
    return np.array(_parsed(values, parse, f"`{name}`", path, before, hint), dtype=np.int8)


def numbers(values: Any, name: str, path: Path, before: int) -> np.ndarray:
    """Finite numbers, NaN where there is none, float64 [N]; an error for any other value."""

    def parse(value: Any) -> float | None:
        if value is None or value == "":
            return np.nan
        try:
            number = float(value)
        except (TypeError, ValueError):
            return None
        return None if np.isinf(number) else number

    hint = "write a finite number, or name another column"
    return np.array(_parsed(values, parse, f"`{name}`", path, before, hint), dtype=np.float64)


def _parsed(
    values: Any, parse: Callable[[Any], Any], name: str, path: Path, before: int, hint: str
) -> Sequence[Any] | np.ndarray:
    """Each value parsed; of an Arrow array each distinct one once."""
    indices = None
    if isinstance(values, pa.Array):
        encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
        size = len(encoded.dictionary)
        indices = pc.fill_null(encoded.indices, size).to_numpy(zero_copy_only=False)
        values = [*encoded.dictionary.to_pylist(), None]
    parsed = [parse(value) for value in values]
    where = range(len(parsed)) if indices is None else indices
    if any(m is None for m in parsed):
        for number, at in enumerate(where, before + 1):
            if parsed[at] is None:
                raise DataError(
                    f"`{path}` completion {number} has {name} = `{str(values[at])[:40]}`", hint
                )
        parsed = [np.nan if m is None else m for m in parsed]  # in the dictionary, in no row
    return parsed if indices is None else np.array(parsed)[indices]

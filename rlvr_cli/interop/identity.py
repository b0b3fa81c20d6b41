"""Checks that rows with one prompt id are of one prompt, and that sample numbers are unique.

Shapes: N completions of a batch, U prompts in it.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rlvr_cli.errors import DataError
from rlvr_cli.interop.names import MAYBE_SAMPLE, id_text
from rlvr_cli.interop.spoken import MODEL

Key = tuple[str | None, str]  # source and id of a prompt
_HINTS = {
    "prompt": (
        "two texts",
        "tell the prompts apart with --source-column or --id-column; if `{}` holds more than the "
        "prompt: --prompt-column none",
    ),
    "gold": (
        "two golds",
        "tell the prompts apart with --source-column or --id-column; if `{}` is not a gold: "
        "--answer-column none",
    ),
    "step": (
        "completions of two steps",
        "take one step with --where {}=STEP, all as sources with --source-column {}, or all as "
        "samples of one prompt with --merge",
    ),
    "model": (
        "completions of two models",
        "take all models as sources with --source-column {}, or all completions as samples of one "
        "prompt with --merge",
    ),
}


class Prompts:
    """The text, gold, step and model of each prompt; an error if a prompt has two."""

    def __init__(self) -> None:
        self._codes: dict[Key, int] = {}
        self._said: dict[str, dict[int, tuple[int, str, str]]] = {name: {} for name in _HINTS}

    def codes(self, keys_U: Sequence[Key], key_N: np.ndarray) -> np.ndarray:
        """The number of each completion's prompt, by the batch's keys; -1 is a key not in use."""
        known = self._codes
        used = np.zeros(len(keys_U), dtype=bool)
        used[key_N] = True
        code_U = [known.setdefault(key, len(known)) if u else -1
                  for key, u in zip(keys_U, used.tolist(), strict=True)]  # fmt: skip
        code_N: np.ndarray = np.array(code_U, dtype=np.int64)[key_N]
        return code_N

    def key(self, code: int) -> Key:
        return next(key for key, known in self._codes.items() if known == code)

    def are_shared(self) -> bool:
        """Whether sources have ids in common that belong to the same prompts in each.

        They do if all that is said of those agrees, and the text or the gold is said of each.
        """
        by_id: dict[str, list[int]] = {}
        for (_, name), code in self._codes.items():
            by_id.setdefault(name, []).append(code)
        shared = [codes for codes in by_id.values() if len(codes) > 1]
        return bool(shared) and all(map(self._are_one, shared))

    def _are_one(self, codes: list[int]) -> bool:
        is_known = False
        for name in ("prompt", "gold"):
            hashes = [known[0] for code in codes if (known := self._said[name].get(code))]
            if len(set(hashes)) > 1:
                return False
            is_known |= len(hashes) == len(codes)
        return is_known

    def add(self, name: str, column: str, values: Any, code_N: np.ndarray, place: Any) -> None:
        """Compares the values of a column with earlier ones of the same prompts."""
        rows: Sequence[int] = range(len(code_N))
        if isinstance(values, pa.Array):
            first_U = np.full(int(code_N.max(initial=-1)) + 1, -1)
            first_U[code_N[::-1]] = np.arange(len(code_N))[::-1]
            if values.take(pa.array(first_U[code_N])).equals(values):
                rows = first_U[first_U >= 0].tolist()
                values = values.take(pa.array(rows))
            values = values.to_pylist()
        codes, seen = code_N.tolist(), self._said[name]
        for row, value in zip(rows, values, strict=True):
            if value is None:
                continue
            text = value if isinstance(value, str) else _plain(value)
            known = seen.get(codes[row])
            if known is None:
                seen[codes[row]] = (hash(text), text[:40], place(row))
            elif known[0] != hash(text):
                what, hint = _HINTS[name]
                source, prompt = self.key(codes[row])
                of = f" of `{source}`" if source else ""
                raise DataError(
                    f"prompt `{prompt}`{of} has {what}: `{column}` is `{known[1]}` in {known[2]} "
                    f"and `{text[:40]}` in {place(row)}",
                    hint.replace("{}", column),
                )


def _plain(value: Any) -> str:
    """A value as text; of messages those before the model's first."""
    if isinstance(value, list):
        turns = [m for m in value if isinstance(m, dict)]
        is_model = [str(m.get("role", m.get("from"))).lower() in MODEL for m in turns]
        if len(turns) == len(value) and any(is_model):
            value = value[: is_model.index(True)]
    if isinstance(value, dict | list):
        return json.dumps(value, sort_keys=True, default=str)
    return id_text(value)


class Samples:
    """The samples of one file: an error if a prompt has one twice, unless repeats are kept."""

    def __init__(self, column: str, repeats: str | None) -> None:
        self.repeated = 0
        self._column = column
        self._repeats = repeats
        self._texts: dict[str, int] = {}
        self._known: set[tuple[int, float]] = set()
        self._codes: list[np.ndarray] = []
        self._numbers: list[np.ndarray] = []
        self._rows: list[np.ndarray] = []

    def numbered(self, values: Any) -> np.ndarray:
        """A number for each sample: its own, or a negative one where it is text; NaN without."""
        if isinstance(values, pa.Array):
            if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
                numbers: np.ndarray = values.to_numpy(zero_copy_only=False).astype(np.float64)
                return numbers
            if pa.types.is_dictionary(values.type) and not values.null_count:
                numbers = self.numbered(values.dictionary)[values.indices.to_numpy()]
                return numbers
            values = values.to_pylist()
        return np.array([self._number(value) for value in values], dtype=np.float64)

    def _number(self, value: Any) -> float:
        if value is None or value == "":
            return np.nan
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            return float(self._texts.setdefault(str(value), -1 - len(self._texts)))

    def add(self, code_N: np.ndarray, sample_N: np.ndarray, row_N: np.ndarray) -> np.ndarray | None:
        """Takes note of a batch; which of its rows to keep, or None where all are."""
        if self._repeats == "first":
            kept = []
            for key in zip(code_N.tolist(), sample_N.tolist(), strict=True):
                kept.append(key[1] != key[1] or key not in self._known)
                self._known.add(key)
            return None if all(kept) else np.array(kept)
        known_N = ~np.isnan(sample_N)
        self._codes.append(code_N[known_N])
        self._numbers.append(sample_N[known_N])
        self._rows.append(row_N[known_N])
        return None

    def close(self, file: Path, prompts: Prompts) -> None:
        """Looks for repeats once all of the file is read."""
        if not self._codes:
            return
        code_N, number_N = np.concatenate(self._codes), np.concatenate(self._numbers)
        order_N = np.lexsort((number_N, code_N))  # stable
        same_N = (np.diff(code_N[order_N]) == 0) & (np.diff(number_N[order_N]) == 0)
        repeats = int(same_N.sum())
        distinguishes = len(code_N) - repeats > len(np.unique(code_N)) if repeats else True
        if not repeats or (self._column in MAYBE_SAMPLE and not distinguishes):
            return
        if self._repeats == "keep":
            self.repeated = repeats
            return
        at = int(np.flatnonzero(same_N)[order_N[1:][same_N].argmin()])
        one, other = (np.concatenate(self._rows)[order_N[at + i]] for i in (0, 1))
        prompt = prompts.key(int(code_N[order_N[at]]))[1]
        raise DataError(
            f"`{file}` has sample {self._shown(number_N[order_N[at]])} of prompt `{prompt}` in row "
            f"{one} and in row {other} (`{self._column}`)",
            "count only the first with --repeats first, or all with --repeats keep; if "
            f"`{self._column}` does not number samples: --sample-column none",
        )

    def _shown(self, number: float) -> str:
        if number < 0:
            return next((f"`{t}`" for t, known in self._texts.items() if known == number), "?")
        return id_text(float(number))

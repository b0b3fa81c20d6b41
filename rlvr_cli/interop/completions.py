"""Completions that other tools stored, and what is known of them, streamed in batches.

Shapes: N completions of a batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rlvr_cli import registry
from rlvr_cli.errors import DataError
from rlvr_cli.interop import labels, parquet_columns, readers

ROWS_PER_BATCH = 4096
KNOWN = {
    "id": readers.ID,
    "completion": (
        *("completion", "completions", "response", "responses"),
        *("output", "generation", "solutions", "text"),
    ),
    "correct": ("correct", "is_correct", "passed", "is_solved", "acc"),
    "reward": ("reward", "rewards", "score", "scores"),
    "extracted": ("extracted", "extracted_answer", "pred", "preds", "prediction", "predictions"),
    "source": ("source", "data_source", "dataset", "benchmark"),
    "sample": ("sample_index", "sample_idx"),
    "finish": ("finish_reason",),
}
PER_ROW = ("id", "source")  # the rest may be one list a row
TEXTS = ("completion", "extracted", "source", "finish")


@dataclass(frozen=True)
class Columns:
    """The columns that a user named; the others are looked up by the names that tools use."""

    id: str | None = None
    completion: str | None = None
    correct: str | None = None
    reward: str | None = None
    extracted: str | None = None
    source: str | None = None
    sample: str | None = None
    finish: str | None = None


@dataclass(frozen=True)
class Batch:
    """One row a completion, in the file's order; None is a column that the file does not have.

    `correct` is 1, 0 or -1 where it is not known, `reward` NaN there. Where the file has no
    `correct`, it is whether the reward is 1, unless rewards are graded: see `Stream.graded`.
    """

    prompt_id: pa.Array
    correct: np.ndarray | None = None
    reward: np.ndarray | None = None
    completion: pa.Array | None = None
    extracted: pa.Array | None = None
    source: pa.Array | None = None
    sample: np.ndarray | None = None
    finish: pa.Array | None = None
    rows: list[dict[str, Any]] = field(default_factory=list, repr=False)

    def __len__(self) -> int:
        return len(self.prompt_id)


class Stream:
    """The batches of a path; what its columns are is known once it was read.

    `wanted` are the columns to read besides the id; rows have their completions at hand too.
    With `rows` each batch keeps its rows as they were; without, those of a plain Parquet file
    are not built.
    """

    def __init__(
        self,
        path: Path,
        columns: Columns | None = None,
        *,
        wanted: set[str],
        rows: bool = False,
        rows_per_batch: int = ROWS_PER_BATCH,
    ) -> None:
        self.path = path
        self._rows_per_batch = rows_per_batch
        self.has: dict[str, str] = {}
        self.header: list[str] = []
        self.graded = False
        self.completions = 0
        self._rows = rows
        columns = columns or Columns()
        self._given = {f.name: getattr(columns, f.name) for f in fields(columns)}
        asked = {"id", *wanted} | {n for n, v in self._given.items() if v}
        self._wanted = [name for name in KNOWN if name in asked]

    def __iter__(self) -> Iterator[Batch]:
        """Reads the files; an error without rows, without ids, or where a named column is none."""
        rows = 0
        for file in readers.files(self.path):
            for part in self._parts(file):
                self._resolve(part)
                columns: dict[str, Any] | None = None
                source_rows: list[dict[str, Any]] = []
                if isinstance(part, pa.RecordBatch) and "id" in self.has:
                    columns = parquet_columns.columns(part, self.has)
                if columns is None:
                    plain = part.to_pylist() if isinstance(part, pa.RecordBatch) else part
                    columns, source_rows = self._columns(plain, rows)
                rows += len(part)
                batch = self._batch(columns, source_rows)
                self.completions += len(batch)
                yield batch
        if not rows:
            raise readers.no_rows(self.path)
        self._require()

    def _parts(self, file: Path) -> Iterator[Any]:
        """Record batches where the columns of a Parquet file are plain enough, else rows."""
        is_parquet = readers.suffix(file) == ".parquet"
        if is_parquet and not self._rows:
            header = parquet_columns.header(file)
            self.header = self.header or header
            names = parquet_columns.plain(file, {n: self._candidates(n) for n in self._wanted})
            if names is not None and format_of(set(header)) is None:
                yield from parquet_columns.batches(file, names, texts="completion" in self._wanted)
                return
        rows = self._read(file)
        while part := list(islice(rows, self._rows_per_batch)):
            yield part

    def _read(self, file: Path) -> Iterator[dict[str, Any]]:
        """The rows of a file under plain names, with the fields of the tool that wrote it."""
        read = None
        for number, row in enumerate(readers.rows(file)):
            if number == 0:
                self.header = self.header or list(map(str, row))
                module = format_of(set(row))
                read = module and module.reader(file.name)
            yield from read(row) if read else [row]

    def _candidates(self, name: str) -> tuple[str, ...]:
        return (self._given[name],) if self._given[name] else KNOWN[name]

    def _resolve(self, part: Any) -> None:
        """Finds each column: the one given, or the first known one that has a value so far.

        A name that ranks before the one in use and turns up later is an error.
        """
        at_hand = [] if isinstance(part, pa.RecordBatch) else ["completion"]
        for name in dict.fromkeys([*self._wanted, *at_hand]):
            candidates = self._candidates(name)
            used = self.has.get(name)
            better = candidates[: candidates.index(used)] if used else candidates
            for candidate in better:
                if parquet_columns.has_value(part, candidate):
                    if used:
                        raise DataError(
                            f"`{self.path}` has `{used}` in its first rows and `{candidate}` later",
                            f"name one with --{'correct' if name == 'reward' else name}-column",
                        )
                    self.has[name] = candidate
                    break

    def _columns(
        self, part: list[dict[str, Any]], before: int
    ) -> tuple[dict[str, list[Any]], list[dict[str, Any]]]:
        """One value a completion in each column, and the row of each."""
        columns: dict[str, list[Any]] = {name: [] for name in self.has}
        source_rows: list[dict[str, Any]] = []
        if "id" not in self.has:
            self._require()
        for number, row in enumerate(part, before + 1):
            values = {name: readers.look_up(row, column) for name, column in self.has.items()}
            if "completion" in values:
                values["completion"] = _spoken(values["completion"])
            lists = {
                name: value
                for name, value in values.items()
                if name not in PER_ROW and isinstance(value, list)
            }
            self._check(values, lists, number)
            size = len(next(iter(lists.values()))) if lists else 1
            if lists and "sample" in values:
                lists["sample"] = values["sample"] = list(range(size))
            for name, value in values.items():
                columns[name] += value if name in lists else [value] * size
            source_rows += [row] * size
        return columns, source_rows

    def _check(self, values: dict[str, Any], lists: dict[str, list[Any]], number: int) -> None:
        if len({len(value) for value in lists.values()}) > 1:
            sizes = ", ".join(f"{len(v)} in `{self.has[name]}`" for name, v in lists.items())
            raise DataError(f"`{self.path}` row {number} holds lists of different lengths: {sizes}")
        if values["id"] is None:
            column = self.has["id"]
            raise DataError(f"`{self.path}` row {number} has no `{column}`", "every row needs one")
        if any(not value for value in lists.values()):
            raise DataError(
                f"`{self.path}` row {number} holds an empty list for prompt `{values['id']}`",
                "remove the row, or fill it",
            )

    def _batch(self, columns: dict[str, Any], source_rows: list[dict[str, Any]]) -> Batch:
        correct, reward = columns.get("correct"), columns.get("reward")
        where, before = self.path, self.completions
        if correct is not None:
            correct = labels.truths(correct, self.has["correct"], where, before)
        if reward is not None:
            reward = labels.numbers(reward, self.has["reward"], where, before)
            self.graded = self.graded or bool(np.any(~np.isin(reward, (0, 1)) & ~np.isnan(reward)))
        if reward is not None and correct is None:
            correct = np.where(np.isnan(reward), -1, reward == 1).astype(np.int8)
        others = {name: parquet_columns.text(columns[name]) for name in TEXTS if name in columns}
        if "sample" in columns:
            others["sample"] = labels.numbers(columns["sample"], self.has["sample"], where, before)
        return Batch(
            parquet_columns.text(columns["id"]), correct, reward, **others, rows=source_rows
        )

    def _require(self) -> None:
        header = ", ".join(self.header)
        for name, given in self._given.items():
            if given and name not in self.has:
                raise DataError(
                    f"`{self.path}` has no column `{given}`; it has {header}",
                    f"name one of them with --{name}-column",
                )
        if "id" not in self.has:
            raise DataError(
                f"`{self.path}` has none of the columns {', '.join(KNOWN['id'])}; it has {header}",
                "name the right one with --id-column",
            )


def format_of(names: set[str]) -> Any:
    """The file of formats/ that recognises these columns as its tool's; None if none does."""
    known = [*registry.names("formats"), *registry.installed("formats")]
    modules = (registry.module("formats", name) for name in known)
    return next((module for module in modules if module.recognises(names)), None)


def _spoken(value: Any) -> Any:
    """The text of a completion that is a list of messages; a list of such lists one by one."""
    if not isinstance(value, list) or not value:
        return value
    if all(isinstance(message, dict) and "content" in message for message in value):
        return "".join(str(message["content"]) for message in value)
    return [_spoken(item) for item in value]

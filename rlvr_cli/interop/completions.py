"""Completions that other tools stored, with their facts, streamed in batches.

Shapes: N completions of a batch.
"""

import shlex
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rlvr_cli.config import Columns as Columns
from rlvr_cli.errors import DataError
from rlvr_cli.interop import (
    containers,
    file_sets,
    finish,
    labels,
    parquet_columns,
    readers,
    spoken,
    tool_rows,
    written,
)
from rlvr_cli.interop.batch import Batch as Batch
from rlvr_cli.interop.identity import Prompts, Samples
from rlvr_cli.interop.names import KNOWN as KNOWN, PER_ROW
from rlvr_cli.interop.tool_rows import ToolRows
from rlvr_cli.interop.where import Where

ROWS_PER_BATCH = 4096
TEXTS = ("completion", "extracted", "source")
VERDICTS = ("correct", "reward")
_LIKE_IDS = ("instance_id", "sample_id", "uuid", "index", "idx", "key")  # often ids, not always
COMPARED = ("prompt", "gold", "step", "model")  # on which all rows of a prompt must agree


class Stream:
    """The batches of a path; which columns it has is known once it has been read.

    `wanted` are the columns to read besides the id and the compared ones. With `rows` each batch
    keeps its rows as they were; without, rows of a plain Parquet file are not built. With
    `images_on_disk` those in base64 wait there (`image_files.with_spooled`), but for the columns
    that are read as text. Without `checks` nothing ensures that the rows of a prompt agree, for a
    command that only shows a file.

    If several files have the same prompts, each file is a source: `apart`.
    """

    def __init__(
        self,
        path: Path,
        columns: Columns | None = None,
        *,
        wanted: set[str],
        rows: bool = False,
        images_on_disk: bool = False,
        checks: bool = True,
        rows_per_batch: int | None = None,
    ) -> None:
        self.path = path
        self._rows_per_batch = rows_per_batch or ROWS_PER_BATCH
        self.has: dict[str, str] = {}
        self.graded = False
        self.apart: list[str] = []  # the names of the files, where each is a source
        self.verdicts: list[str] = []  # the names of the files' columns of verdicts
        self.steps: set[Any] = set()  # of the policy, where a column says them
        self.completions = 0
        self.repeated = 0
        self.prompts = Prompts()
        self._rows = rows
        self._images_on_disk = images_on_disk
        self._checks = checks
        self.columns = columns = columns or Columns()
        self._given = {name: getattr(columns, name, None) for name in KNOWN}
        none = {name for name, value in self._given.items() if value == Columns.NO_COLUMN}
        self._given |= dict.fromkeys(none)
        self._where = Where(columns.where or [])
        names = {"id", *wanted, *(n for n, v in self._given.items() if v)}
        names |= {"source", "sample", *COMPARED} if checks else set()
        self._wanted = [name for name in KNOWN if name in names - none]
        self._asked = wanted
        self._known = {n: (own,) if (own := self._given[n]) else KNOWN[n] for n in KNOWN}
        texts = [name for n, known in self._known.items() if n != "prompt" for name in known]
        self._tool_rows = ToolRows(
            self._where, self._known["completion"], texts if images_on_disk else None
        )
        self._judge = labels.Judge(columns)
        self._samples: Samples | None = None
        self._file = path
        self._label = ""

    @property
    def header(self) -> list[str]:
        """The names of the columns in the file that was read last."""
        return self._tool_rows.header

    def __iter__(self) -> Iterator[Batch]:
        """Reads the files; an error without rows, without ids, or where a named column is none."""
        files, has_rows = readers.files(self.path, tool_rows.is_known_row), False
        if self._checks and not self.columns.merge and file_sets.are_apart(files, self._bare):
            names = file_sets.labels(files)
            self.apart = list(names.values())
        for file in files:
            self._label = names[file] if self.apart else ""
            for batch in self._of(file):
                has_rows = True
                yield batch
        if not has_rows:
            raise self._where.nothing(self.path, self.header) or readers.no_rows(self.path)
        self._require_given(self.path, self.header)

    def require_completions(self) -> None:
        """An error if what was read has no completions."""
        if "completion" not in self.has:
            raise DataError(
                f"`{self.path}` has no completions; it has {', '.join(self.header)}",
                "name their column with --completion-column",
            )

    def facts(self) -> dict[str, Any]:
        """How the files were read: where correctness comes from, and which files are sources."""
        return {
            "correct": [] if self.graded else self.verdicts,
            "correct_above": self.columns.correct_above,
            "apart": self.apart,
        }

    def _shown(self, name: str) -> str:
        column = self.has[name]
        return self._tool_rows.names.get(column, column)

    def _bare(self, file: Path) -> Iterator[Batch]:
        """The ids, sources and samples of one file."""
        given = self.columns
        columns = Columns(id=given.id, source=given.source, sample=given.sample, where=given.where)
        stream = Stream(
            file, columns, wanted={"source", "sample"}, images_on_disk=self._images_on_disk,
            checks=False,
        )  # fmt: skip
        return stream._of(file)

    def _of(self, file: Path) -> Iterator[Batch]:
        """The batches of one file."""
        self._file, rows, before, self.has = file, 0, self.has, {}
        self._tool_rows.begin()
        self._samples = None
        self._judge = labels.Judge(self.columns)
        for part in self._parts(file):
            self._resolve(part if isinstance(part, pa.RecordBatch) else [row for _, row in part])
            source_rows: list[dict[str, Any]] = []
            plain = None
            if isinstance(part, pa.RecordBatch) and "id" in self.has:
                plain = parquet_columns.columns(part, self.has)
            if plain is not None:
                columns, row_N = plain
                row_N = row_N + rows + 1
            else:
                if isinstance(part, pa.RecordBatch):
                    part = list(enumerate(part.to_pylist(), rows + 1))
                columns, source_rows, row_N = self._columns(part)
            rows += len(part)
            batch = self._batch(columns, source_rows, row_N)
            self.completions += len(batch)
            yield batch
        if self._samples and self._checks:
            self._samples.close(file, self.prompts)
            self.repeated += self._samples.repeated
        if (used := self._judge.used(self.has)) in self.has:
            self.verdicts = list(dict.fromkeys([*self.verdicts, self._shown(used)]))
        self.has = before | self.has

    def _parts(self, file: Path) -> Iterator[Any]:
        """Record batches where the columns of a Parquet file are plain enough, else lists of rows.

        Each row follows its number in the file.
        """
        is_parquet = readers.suffix(file) == ".parquet"
        if is_parquet and not self._rows and not self._where.conditions:
            header = parquet_columns.header(file)
            self._tool_rows.header = header
            names = parquet_columns.plain(file, {n: self.candidates(n) for n in self._wanted})
            verdicts = [name for n in VERDICTS for name in self.candidates(n)]
            if parquet_columns.shares_verdicts(file, self.candidates("completion"), verdicts):
                names = None
            if names is not None and tool_rows.format_of(set(header)) is None:
                yield from parquet_columns.batches(file, names, texts="completion" in self._wanted)
                return
        rows = self._tool_rows.of(file)
        while part := list(islice(rows, self._rows_per_batch)):
            yield part

    def candidates(self, name: str) -> tuple[str, ...]:
        """The names that a column may have: the one given, else those that tools use."""
        if self._tool_rows.is_format and not self._given[name]:
            # A format's reader says which is the prompt and the gold, if any is.
            of_format = {"prompt": ("prompt",), "gold": ("answer",)}
            return of_format.get(name, KNOWN[name])
        return self._known[name]

    def _resolve(self, part: Any) -> None:
        """Finds each column: the one given, or the first known one that has a value so far.

        A name that ranks before the one in use and turns up later is an error.
        """
        is_batch = isinstance(part, pa.RecordBatch)
        at_hand = [] if is_batch else ["completion"]
        there = set(part.schema.names) if is_batch else set().union(*part)
        for name in dict.fromkeys([*self._wanted, *at_hand]):
            candidates = self.candidates(name)
            used = self.has.get(name)
            better = candidates[: candidates.index(used)] if used in candidates else candidates
            taken = {v for n, v in self.has.items() if n not in (name, "prompt", "gold")}
            for candidate in better:
                if candidate not in there and candidate.partition(".")[0] not in there:
                    continue
                is_guessed = not self._given[name]
                if is_guessed and name in ("sample", *COMPARED) and candidate in taken:
                    continue
                if parquet_columns.has_value(part, candidate):
                    if used in candidates and name not in COMPARED:
                        raise DataError(
                            f"`{self._file}` has `{used}` in its first rows and `{candidate}` "
                            "later",
                            f"name one with {_flag(name)}",
                        )
                    self.has[name] = candidate
                    break

    def _columns(
        self, part: list[tuple[int, dict[str, Any]]]
    ) -> tuple[dict[str, list[Any]], list[dict[str, Any]], np.ndarray]:
        """One value a completion in each column, the row of each, and that row's number."""
        columns: dict[str, list[Any]] = {name: [] for name in self.has}
        source_rows: list[dict[str, Any]] = []
        row_N: list[int] = []
        if "id" not in self.has:
            self._require_ids(Path(readers.shown(self._file)), part)
        for number, row in part:
            values = {name: readers.look_up(row, column) for name, column in self.has.items()}
            values = written.values(values, self.has)
            if "completion" in values:
                values["completion"] = self._spoken(values["completion"], number)
            lists = self._lists(values)
            self._check(values, lists, number)
            if not lists:
                for name, value in values.items():
                    columns[name].append(value)
                source_rows.append(row)
                row_N.append(number)
                continue
            size = len(next(iter(lists.values())))
            if "sample" in values and "sample" not in lists and size > 1:
                one = values["sample"]  # of the row: its completions are numbered within it
                numbers = [i if one is None else f"{one}/{i}" for i in range(size)]
                lists["sample"] = values["sample"] = numbers
            for name, value in values.items():
                columns[name] += value if name in lists else [value] * size
            source_rows += [row] * size
            row_N += [number] * size
        return columns, source_rows, np.array(row_N, dtype=np.int64)

    def _lists(self, values: dict[str, Any]) -> dict[str, list[Any]]:
        """The columns that hold a list with a value for each completion of the row."""
        per_row = set(PER_ROW) - ({"source"} if self._given["source"] else set())
        lists = {n: v for n, v in values.items() if n not in per_row and isinstance(v, list)}
        if "model" in lists and len(lists) > 1:
            others = {len(value) for name, value in lists.items() if name != "model"}
            if others != {len(lists["model"])}:  # not those of the completions
                del lists["model"]
        return lists

    def _spoken(self, value: Any, number: int) -> Any:
        """The text of a completion, or of each; an error if it is wanted and is not text."""
        try:
            return spoken.texts(value)
        except spoken.Unreadable as error:
            if "completion" in self._wanted:
                what = f"no text in `{self.has['completion']}`: "
                raise tool_rows.unreadable(self._file, number, what, error) from error
        return [None] * len(value) if isinstance(value, list) else None

    def _check(self, values: dict[str, Any], lists: dict[str, list[Any]], number: int) -> None:
        file = readers.shown(self._file)
        if lists and len({len(value) for value in lists.values()}) > 1:
            sizes = ", ".join(f"{len(v)} in `{self._shown(name)}`" for name, v in lists.items())
            raise DataError(
                f"`{file}` row {number} holds lists of different lengths: {sizes}",
                "name those that belong together, as with --completion-column",
            )
        if values["id"] is None or values["id"] != values["id"]:
            column = self.has["id"]
            raise DataError(
                f"`{file}` row {number} has no `{column}`",
                "every row needs one; --id-column names another column",
            )
        if lists and not all(lists.values()):
            raise DataError(
                f"`{file}` row {number} holds an empty list for prompt `{values['id']}`",
                "remove the row, or fill it",
            )
        size = len(next(iter(lists.values()), ()))
        shared = [n for n in VERDICTS if n not in lists and values.get(n) is not None]
        if size > 1 and shared:
            leave_out = " ".join(f"{_flag(name)} none" for name in shared)
            raise DataError(
                f"`{file}` row {number} holds {size} completions and one "
                f"`{self._shown(shared[0])}`, which does not say which of them are right",
                f"leave it out when they are imported, and score them: {leave_out}",
            )

    def _batch(
        self, columns: dict[str, Any], source_rows: list[dict[str, Any]], row_N: np.ndarray
    ) -> Batch:
        def place(at: int) -> str:
            return f"`{readers.shown(self._file)}` row {row_N[at]}"

        ids = parquet_columns.ids(columns["id"], is_text=readers.suffix(self._file) == ".csv")
        others = {name: parquet_columns.text(columns[name]) for name in TEXTS if name in columns}
        if "finish" in columns:
            name = self._shown("finish")
            others["finish"] = finish.column(columns["finish"], name, place)
        for name in {"prompt", "gold"} & self._asked & columns.keys():
            others[name] = parquet_columns.json_text(columns[name])
        if self._label:
            others["source"] = parquet_columns.in_source(
                self._label, others.get("source"), len(ids)
            )
        correct, reward = self._judge.read(columns, self._shown, place)
        self.graded = self.graded or self._judge.graded
        if "sample" in columns:
            self._samples = self._samples or Samples(self.has["sample"], self.columns.repeats)
            others["sample"] = self._samples.numbered(columns["sample"])
        batch = Batch(ids, correct, reward, **others, rows=source_rows)
        kept_N = self._compare(batch, columns, row_N, place) if self._checks else None
        return batch if kept_N is None else batch.kept(kept_N)

    def _compare(
        self, batch: Batch, columns: dict[str, Any], row_N: np.ndarray, place: labels.Place
    ) -> np.ndarray | None:
        """Holds the rows of a prompt to one text, gold and step; the rows to keep, None for all."""
        compared = [name for name in COMPARED if name in columns]
        if "step" in columns:
            values = columns["step"]
            self.steps |= set(values.unique().to_pylist() if isinstance(values, pa.Array)
                              else map(str, values))  # fmt: skip
        if self.columns.merge:
            compared = [name for name in compared if name not in ("step", "model")]
        if not compared and batch.sample is None:
            return None
        code_N = self.prompts.codes(*parquet_columns.keys(batch.source, batch.prompt_id))
        for name in compared:
            self.prompts.add(name, self._shown(name), columns[name], code_N, place)
        if self._samples is None or batch.sample is None:
            return None
        return self._samples.add(code_N, batch.sample, row_N)

    def _require_given(self, where: Path, names: list[str]) -> None:
        """An error where a column that was named is not there, or holds nothing."""
        header = ", ".join(map(str, names))
        for name, given in self._given.items():
            if given and name not in self.has:
                if given in names:
                    raise DataError(
                        f"`{where}` has a column `{given}`, and no value in it",
                        f"fill it, or name another one with {_flag(name)}",
                    )
                own = ", ".join(name for name in self._tool_rows.own if name not in names)
                raise DataError(
                    f"`{where}` has no column `{given}`; it has {header}"
                    + (f"; its completions have {own}" if own else ""),
                    f"name one of them with {_flag(name)}",
                )

    def _require_ids(self, where: Path, part: list[tuple[int, dict[str, Any]]]) -> None:
        """The error of rows that have no id, with the text of prompts in its place if all have."""
        names = list(map(str, part[0][1]))
        self._require_given(where, names)
        is_row = len(part) > 1 or bool({"completion", "prompt"} & self.has.keys())
        if inner := None if is_row else containers.inner(part[0][1]):
            raise DataError(
                f"`{where}` is one object, which holds rows in {inner}",
                f"take them out: jq -c {shlex.quote(inner)} {shlex.quote(str(where))} > rows.jsonl",
            )
        text = next((name for name in KNOWN["prompt"] if name in names), "")
        without = next((number for number, row in part if row.get(text) is None), None)
        is_null = f", and no `{text}` in row {without}" if text and without else ""
        or_text = f", or the text: --id-column {text}" if text and not without else ""
        like = next((f", as in --id-column {name}" for name in _LIKE_IDS if name in names), "")
        raise DataError(
            f"`{where}` has none of the columns {', '.join(KNOWN['id'])}; it has "
            f"{', '.join(names)}{is_null}",
            f"name the column that identifies its prompts with --id-column{or_text or like}",
        )


def _flag(name: str) -> str:
    """The flag that names a column."""
    return "--answer-column" if name == "gold" else f"--{name}-column"

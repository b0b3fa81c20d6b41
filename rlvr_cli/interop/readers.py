"""Files that other tools wrote: JSONL, JSON, Parquet and CSV rows under the names they use."""

import contextlib
import csv
import json
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from rlvr_cli.errors import DataError
from rlvr_cli.interop import containers, inspect_zip, opened
from rlvr_cli.interop.containers import IsRow
from rlvr_cli.interop.opened import suffix as suffix
from rlvr_cli.interop.places import files as files, is_known as is_known
from rlvr_cli.runtime import spooled, stdin
from rlvr_cli.runtime.stdin import shown as shown

ID = containers.ID
PROMPT = ("messages", "prompt", "problem", "question", "instruction", "query",
          "conversations")  # fmt: skip
_NO_CELL: Any = object()
_BATCH, SHORT_BATCH = 1024, 32  # rows of a Parquet file; of one with bytes, which may be images
_LONG_BYTES = 1024
ANSWER = ("reward_model.ground_truth", "ground_truth", "answer", "expected_answer", "solution",
          "label")  # fmt: skip


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, of those of a folder or a pattern, or of stdin; compressed or not."""
    return list(rows(path))


def rows(path: Path, is_row: IsRow = lambda names: False) -> Iterator[dict[str, Any]]:
    """The rows of `read`, one after the other; an error if there are none.

    `is_row` knows by their keys the JSON objects that are a row, whatever lists they hold.
    """
    has_rows = False
    for file in files(path, is_row):
        ending = _ending(file)
        if ending == ".parquet":
            file_rows = _parquet(file)
        elif ending == inspect_zip.SUFFIX:
            file_rows = inspect_zip.rows(file)
        else:
            file_rows = _csv(file) if ending == ".csv" else _json(file, is_row)
        for row in file_rows:
            has_rows = True
            yield row
    if not has_rows:
        raise no_rows(path)


def _ending(file: Path) -> str:
    """The ending of a file; of stdin, which has none, the one that its first bytes call for."""
    if not stdin.is_spooled(file):
        return suffix(file)
    start = opened.head(file)
    if start.startswith(b"PAR1"):
        return ".parquet"
    is_json = start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[", b"")
    return ".jsonl" if is_json else ".csv"


def no_rows(path: Path) -> DataError:
    return DataError(f"`{shown(path)}` holds no rows", "check that the file was written to its end")


def _json(path: Path, is_row: IsRow) -> Iterator[dict[str, Any]]:
    """The rows of JSON lines, or of one JSON value, or of several after each other, as jq writes.

    The first line decides which of them it is, not the name.
    """
    with opened.text(path, newline="\n") as file:
        lines = ((number, line) for number, line in enumerate(file, 1) if line.strip())
        (number, first), second = next(lines, (0, "")), next(lines, None)
        if not first:
            return
        if second is None or _is_incomplete(first):
            rest = (line for line in [second and second[1], *(line for _, line in lines)] if line)
            text = "\n" * (number - 1) + first + "".join(rest)
            for at, row in enumerate(containers.rows(_value(path, text), shown(path), is_row), 1):
                yield _checked(path, at, row, text)
            return
        yield from _jsonl(path, [(number, first), second], lines)


def _jsonl(
    path: Path, begun: list[tuple[int, str]], lines: Iterator[tuple[int, str]]
) -> Iterator[dict[str, Any]]:
    for part in (begun, lines):
        for number, line in part:
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise _no_json(path, number, error) from error
            yield _checked(path, number, row, line)


def _is_incomplete(line: str) -> bool:
    """Whether a line of JSON continues in the next one."""
    try:
        json.loads(line)
    except json.JSONDecodeError as error:
        return error.pos >= len(line.rstrip())
    except (ValueError, RecursionError):  # of a number, or of depth: what reads it says so
        return False
    return False


def _value(path: Path, text: str) -> Any:
    """The JSON value of a text, or the list of those that follow each other."""
    decoder, at = json.JSONDecoder(), 0
    values: list[Any] = []
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            return values[0] if len(values) == 1 else values
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise _no_json(path, error.lineno, error) from error
        except (ValueError, RecursionError) as error:
            raise _no_json(path, text.count("\n", 0, at) + 1, error) from error
        values.append(value)


def _no_json(path: Path, number: int, error: Exception) -> DataError:
    return DataError(
        f"`{shown(path)}` line {number} is not JSON: {error}", opened.line_hint(path, number)
    )


def _checked(path: Path, number: int, row: Any, text: str) -> dict[str, Any]:
    if containers.are_turns(row):
        row = {"messages": row}
    if not isinstance(row, dict):
        raise DataError(
            f"`{shown(path)}` row {number} is not an object: {str(row)[:60]}", "one object a row"
        )
    if "\\u" not in text:
        return row
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"`{shown(path)}` row {number} holds half a surrogate pair, which is not text: {error}",
            "remove it; a tool cut the text between the two halves of a character",
        ) from error
    return row


def _csv(path: Path) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(sys.maxsize)
    with opened.text(path, newline="") as file:
        for number, row in enumerate(_cells(path, file), 1):
            if None in row:
                raise DataError(
                    f"`{shown(path)}` row {number} has more cells than the header: "
                    f"{str(row[None])[:60]}",
                    "put quotes around text that holds commas",
                )
            if _NO_CELL in row.values():
                raise DataError(
                    f"`{shown(path)}` row {number} has fewer cells than the header",
                    "check that the file was written to its end",
                )
            yield row


def _cells(path: Path, file: TextIO) -> Iterator[dict[Any, Any]]:
    header = file.readline()
    between = next((one for one in ",\t;" if one in header), ",")
    reader = csv.DictReader(chain([header], file), restval=_NO_CELL, delimiter=between)
    try:
        names = reader.fieldnames or []
        if twice := [name for name in names if names.count(name) > 1]:
            raise DataError(
                f"`{shown(path)}` has several columns `{twice[0]}`", "give each its own name"
            )
        yield from reader
    except csv.Error as error:
        raise DataError(
            f"`{shown(path)}` line {reader.line_num} is not CSV: {error}",
            opened.line_hint(path, reader.line_num),
        ) from error


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    with reporting_damage(path), pq.ParquetFile(path) as file:
        size = SHORT_BATCH if any(_has_bytes(one.type) for one in file.schema_arrow) else _BATCH
        for group in range(file.num_row_groups):  # Arrow holds all the row groups that it is given
            for batch in file.iter_batches(batch_size=size, row_groups=[group]):
                yield from spooled_rows(batch)


def spooled_rows(batch: Any) -> Iterator[dict[str, Any]]:
    """The rows of an Arrow table or batch, whose long bytes wait on disk."""
    names = [one.name for one in batch.schema if _has_bytes(one.type)]
    for row in batch.to_pylist():
        yield row | {name: _spooled(row[name]) for name in names}


def _has_bytes(kind: Any) -> bool:
    """Whether an Arrow type holds bytes, at any depth."""
    import pyarrow.types as types

    inner = (kind.field(i).type for i in range(kind.num_fields))
    return types.is_binary(kind) or types.is_large_binary(kind) or any(map(_has_bytes, inner))


def _spooled(value: Any) -> Any:
    """A value whose long bytes, as those of images are, wait on disk."""
    if isinstance(value, dict):
        return {name: _spooled(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_spooled(item) for item in value]
    is_long = isinstance(value, bytes) and len(value) >= _LONG_BYTES
    return spooled.keep(value) if is_long else value


@contextlib.contextmanager
def reporting_damage(path: Path) -> Iterator[None]:
    """Says that a Parquet file is damaged where reading it fails."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        opened.require_content(path)
        raise DataError(
            f"`{path}` is not a complete Parquet file: {error}", "copy or write it again"
        ) from error


def look_up(row: dict[str, Any], name: str) -> Any:
    """The value under a name; a dot steps into a nested object."""
    if name in row:
        return row[name]
    value: Any = row
    for key in name.split("."):
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    return value


def column(
    rows: list[dict[str, Any]], given: str | None, known: tuple[str, ...], flag: str, where: Path
) -> str | None:
    """The name of a column: the one given, or the first of the known names that the file has."""
    for name in [given] if given else known:
        if any(look_up(row, name) is not None for row in rows):
            return name
    if given:
        raise DataError(
            f"`{where}` has no column `{given}`; it has {', '.join(map(str, rows[0]))}",
            f"name one of them with {flag}",
        )
    return None


def required(
    rows: list[dict[str, Any]],
    given: str | None,
    known: tuple[str, ...],
    flag: str,
    where: Path,
    other: str = "",
) -> str:
    """As `column`, but an error if there is none, whose hint ends with `other`."""
    name = column(rows, given, known, flag, where)
    if name is None:
        raise DataError(
            f"`{where}` has none of the columns {', '.join(known)}; "
            f"it has {', '.join(map(str, rows[0]))}",
            f"name the right one with {flag}{other}",
        )
    return name

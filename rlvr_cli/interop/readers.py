"""Files that other tools wrote: JSONL, Parquet and CSV rows under the names they use."""

import contextlib
import csv
import glob
import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, TextIO

from rlvr_cli.errors import DataError
from rlvr_cli.interop import inspect_zip

ID = ("prompt_id", "id", "uid", "unique_id", "task_id", "question_id", "doc_id")
PROMPT = ("messages", "prompt", "problem", "question", "instruction", "query",
          "conversations")  # fmt: skip
ANSWER = ("reward_model.ground_truth", "ground_truth", "answer", "solution", "label")
_SUFFIXES = (".jsonl", ".json", ".parquet", ".csv", inspect_zip.SUFFIX)


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, of the files in a directory or of a pattern, or of a gzipped file."""
    return list(rows(path))


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of `read`, one after the other; an error if there are none."""
    readers = {".parquet": _parquet, ".csv": _csv, ".jsonl": _jsonl, ".json": _json,
               inspect_zip.SUFFIX: inspect_zip.rows}  # fmt: skip
    has_rows = False
    for file in files(path):
        for row in readers[suffix(file)](file):
            has_rows = True
            yield row
    if not has_rows:
        raise no_rows(path)


def files(path: Path) -> list[Path]:
    """The files that a path names: itself, those of a directory, or those of a `*` pattern."""
    if path.is_dir():
        return sorted(p for p in path.iterdir() if is_known(p) and p.name[0] not in "._")
    if not path.exists():
        matches = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
        if not matches:
            raise DataError(f"`{path}` does not exist", "check the path")
        return [file for one in matches for file in files(one)]
    if not is_known(path):
        raise DataError(
            f"`{path}` has none of the endings that rlvr reads",
            f"name it with one of {', '.join(_SUFFIXES)}; .gz may follow",
        )
    return [path]


def is_known(path: PurePath) -> bool:
    """Whether the file's ending is one that `read` reads."""
    return suffix(path) in _SUFFIXES


def suffix(path: PurePath) -> str:
    return path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix


def no_rows(path: Path) -> DataError:
    return DataError(f"`{path}` holds no rows", "check that the file was written to its end")


@contextlib.contextmanager
def _text(path: Path, *, newline: str) -> Iterator[TextIO]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline=newline) as file:
            yield file
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"cannot read `{path}`: {error}", "check the file") from error


def _jsonl(path: Path) -> Iterator[dict[str, Any]]:
    with _text(path, newline="\n") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    row = json.loads(line)
                except ValueError as error:
                    raise DataError(
                        f"`{path}` line {number} is not JSON: {error}",
                        f"look at it with `sed -n {number}p {path}`",
                    ) from error
                yield _checked(path, number, row, line)


def _json(path: Path) -> Iterator[dict[str, Any]]:
    with _text(path, newline="\n") as file:
        text = file.read()
    try:
        value = json.loads(text)
    except ValueError as error:
        raise DataError(f"`{path}` is not JSON: {error}", "name JSON lines .jsonl") from error
    objects = value if isinstance(value, list) else [value]
    return (_checked(path, number, row, text) for number, row in enumerate(objects, 1))


def _checked(path: Path, number: int, row: Any, text: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise DataError(f"`{path}` row {number} is no object: {str(row)[:60]}", "one object a row")
    if "\\u" not in text:
        return row
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"`{path}` row {number} holds half a surrogate pair, which is no text: {error}",
            "remove it; a tool cut the text between the two halves of a character",
        ) from error
    return row


def _csv(path: Path) -> Iterator[dict[str, Any]]:
    with _text(path, newline="") as file:
        for number, row in enumerate(csv.DictReader(file), 1):
            if None in row:
                raise DataError(
                    f"`{path}` row {number} has more cells than the header: {str(row[None])[:60]}",
                    "put quotes around text that holds commas",
                )
            yield row


def _parquet(path: Path) -> Iterator[dict[str, Any]]:
    import pyarrow.parquet as pq

    with reporting_damage(path):
        for batch in pq.ParquetFile(path).iter_batches(batch_size=1024):
            yield from batch.to_pylist()


@contextlib.contextmanager
def reporting_damage(path: Path) -> Iterator[None]:
    """Says that a Parquet file is damaged where reading it fails."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
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
    """As `column`; an error if no column is found, with `other` behind its hint."""
    name = column(rows, given, known, flag, where)
    if name is None:
        raise DataError(
            f"`{where}` has none of the columns {', '.join(known)}; "
            f"it has {', '.join(map(str, rows[0]))}",
            f"name the right one with {flag}{other}",
        )
    return name

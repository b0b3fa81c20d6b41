"""Queries on SQLite databases that are only read, within a time."""

import contextlib
import functools
import sqlite3
import time
from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError

SUFFIXES = (".sqlite", ".sqlite3", ".db")
_ROWS = 200_000
_VALUE_BYTES = 10_000_000
_STEPS = 2000  # of SQLite's machine between two looks at the clock
_READING = {
    sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE,
}  # fmt: skip
_FORBIDDEN = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer",
              "random", "randomblob"}  # these two would have a verdict depend on luck  # fmt: skip
Row = tuple[Any, ...]
REFUSALS = (sqlite3.Error, sqlite3.Warning, ValueError)
"""What `run` raises of a query that cannot be run."""


class TooLong(Exception):
    """A query takes more than its time."""


@functools.cache
def files(folder: str) -> dict[str, Path]:
    """The databases of a folder by name: NAME.sqlite, or NAME/NAME.sqlite as Spider has them."""
    inner = [p for p in sorted(Path(folder).glob("*/*")) if p.stem == p.parent.name]
    paths = [*inner, *sorted(Path(folder).glob("*"))]
    by_name = {p.stem: p for p in paths if p.suffix in SUFFIXES and p.is_file()}
    if not by_name:
        raise DataError(f"`{folder}` holds no SQLite database", f"they end with {SUFFIXES[0]}")
    return by_name


@functools.cache
def suite(path: Path) -> tuple[Path, ...]:
    """The databases of a test suite: those with a database in the folder of its name."""
    if path.parent.name != path.stem:
        return (path,)
    return tuple(p for p in sorted(path.parent.iterdir()) if p.suffix in SUFFIXES and p.is_file())


def run(path: Path, text: str, deadline: float) -> tuple[list[str], list[Row]]:
    """The columns and rows of one query that only reads.

    An error after `deadline` of the monotonic clock.
    """
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_BYTES)
        connection.text_factory = lambda data: data.decode(errors="replace")
        connection.set_authorizer(_authorize)
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        try:
            cursor = connection.execute(text)
            rows = cursor.fetchmany(_ROWS)
        except sqlite3.OperationalError as error:
            if time.monotonic() > deadline:
                raise TooLong from error
            raise
    if len(rows) == _ROWS:
        raise ValueError(f"more than {_ROWS - 1} rows")
    return [column[0] for column in cursor.description or ()], rows


def _authorize(action: int, first: str | None, second: str | None, *_: Any) -> int:
    calls_out = action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FORBIDDEN
    allowed = action in _READING and not calls_out
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

"""Whether a query returns what a gold query does, on a SQLite database that is only read."""

import contextlib
import functools
import hashlib
import json
import os
import sqlite3
import time
from collections import Counter
from pathlib import Path
from typing import Any, Literal

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.protocols import Equality, Isolated, Limits, Verdict
from rlvr_cli.verification.parsing import query

EQUALITY: Equality = "none"  # what it extracts is why a query is wrong

_LOGIC = "1"  # raised with each change of what this file decides
_SUFFIXES = (".sqlite", ".sqlite3", ".db")
_ROWS = 200_000
_VALUE_BYTES = 10_000_000
_STEPS = 2000  # of SQLite's machine between two looks at the clock
_GRACE_S = 5.0  # until the process is killed, where SQLite is deaf to its handler
_READING = {
    sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE,
}  # fmt: skip
_FORBIDDEN = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"}

Row = tuple[Any, ...]


class TooLong(Exception):
    """A query takes more than its time."""


def build(
    *,
    databases: str = "",
    exceeding: Literal["fault", "wrong"] = "fault",
    timeout_s: float = 5.0,
    memory_mib: int = 1024,
) -> Isolated:
    """The verifier of SQL queries; `databases` is a folder, `extra` names a file of it as `db`.

    The gold is a query or a JSON list of queries, of which one must agree. Rows are compared as a
    multiset, and in order only where the gold has an ORDER BY outside all parentheses; numbers to
    nine digits; the names of columns do not matter. A query that SQLite refuses is wrong.
    `exceeding` says what one is that takes too long or too much memory: a fault, or wrong.
    """
    if not databases:
        raise UsageError("`sql` has no databases", "name their folder: `sql:databases=DIR`")
    if timeout_s <= 0 or memory_mib < 64:
        raise ValueError("timeout_s must be above 0, memory_mib at least 64")

    def judge(extracted: str | None, answer: str, extra: dict[str, Any]) -> Verdict:
        path = files(databases).get(str(extra.get("db")))
        golds = _queries(answer)
        if path is None or not golds:
            missing = f"there is no database `{extra.get('db')}`" if golds else "it is empty"
            return Verdict("bad_gold", reason=missing[:200])
        return _judge(
            extracted, golds, str(path), seconds=timeout_s, exceeding_is_wrong=exceeding == "wrong"
        )

    stats = [(name, os.stat(path)) for name, path in sorted(files(databases).items())]
    state = json.dumps([[name, s.st_size, s.st_mtime_ns] for name, s in stats])
    return Isolated(
        extract=lambda completion, finished: query.of(completion),
        judge=judge,
        limits=Limits(2 * timeout_s + _GRACE_S, memory_mib << 20),
        version=f"{_LOGIC} {sqlite3.sqlite_version} {hashlib.sha256(state.encode()).hexdigest()}",
        reads=("db",),
    )


def _judge(
    extracted: str | None, golds: list[str], path: str, *, seconds: float, exceeding_is_wrong: bool
) -> Verdict:
    """Whether the query returns the rows of one of the gold queries on the database at `path`."""
    results = [_gold(path, gold, seconds) for gold in golds]
    if all(isinstance(result, str) for result in results):
        return Verdict("bad_gold", reason=str(results[0])[:200])
    if extracted is None:
        return Verdict("no_answer", reward=0.0, correct=False)
    try:
        rows = _run(path, extracted, seconds)
    except (TooLong, MemoryError) as error:
        status: Any = "timeout" if isinstance(error, TooLong) else "oom"
        return Verdict(status, 0.0, False) if exceeding_is_wrong else Verdict(status)
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        return Verdict("ok", 0.0, False, reason=f"{type(error).__name__}: {error}"[:200])
    correct = any(
        _agree(result, rows, ordered=query.is_ordered(gold))
        for gold, result in zip(golds, results, strict=True)
        if not isinstance(result, str)
    )
    return Verdict("ok", float(correct), correct, reason=None if correct else "another result")


@functools.cache
def files(folder: str) -> dict[str, Path]:
    """The databases of a folder by name: NAME.sqlite, or NAME/NAME.sqlite as Spider has them."""
    inner = [p for p in sorted(Path(folder).glob("*/*")) if p.stem == p.parent.name]
    paths = [*inner, *sorted(Path(folder).glob("*"))]
    found = {p.stem: p for p in paths if p.suffix in _SUFFIXES and p.is_file()}
    if not found:
        raise DataError(f"`{folder}` holds no SQLite database", f"they end with {_SUFFIXES[0]}")
    return found


def _queries(answer: str) -> list[str]:
    try:
        parsed = json.loads(answer)
    except ValueError:
        parsed = answer
    texts = parsed if isinstance(parsed, list) else [answer]
    return [text for text in texts if isinstance(text, str) and text.strip()]


@functools.lru_cache(maxsize=256)
def _gold(path: str, text: str, seconds: float) -> list[Row] | str:
    """The rows of a gold query, or why there are none."""
    try:
        return _run(path, text, seconds)
    except TooLong:
        return f"the gold query takes more than {seconds:g} s"
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        return f"the gold query fails: {error}"


def _run(path: str, text: str, seconds: float) -> list[Row]:
    """The rows of one query that only reads; an error after so many seconds."""
    deadline = time.monotonic() + seconds
    uri = f"{Path(path).absolute().as_uri()}?mode=ro&immutable=1"
    with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_BYTES)
        connection.text_factory = lambda data: data.decode(errors="replace")
        connection.set_authorizer(_authorize)
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        try:
            rows = connection.execute(text).fetchmany(_ROWS)
        except sqlite3.OperationalError as error:
            if time.monotonic() > deadline:
                raise TooLong from error
            raise
    if len(rows) == _ROWS:
        raise ValueError(f"more than {_ROWS - 1} rows")
    return rows


def _authorize(action: int, first: str | None, second: str | None, *_: Any) -> int:
    calls_out = action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FORBIDDEN
    allowed = action in _READING and not calls_out
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _agree(gold: list[Row], rows: list[Row], *, ordered: bool) -> bool:
    left, right = [_plain(row) for row in gold], [_plain(row) for row in rows]
    return left == right if ordered else Counter(left) == Counter(right)


def _plain(row: Row) -> Row:
    """A row in which numbers that differ by rounding alone are one."""
    return tuple(float(f"{value:.9g}") if isinstance(value, float) else value for value in row)

"""Whether a query returns the same as a gold query, on a read-only SQLite database."""

import functools
import hashlib
import json
import os
import re
import sqlite3
import time
from pathlib import Path
from typing import Any, Literal

from rlvr_cli.errors import UsageError
from rlvr_cli.protocols import Equality, Isolated, Limits, Verdict
from rlvr_cli.verification.parsing import query
from rlvr_cli.verification.verifiers import _rows, _sqlite
from rlvr_cli.verification.verifiers._rows import Rows
from rlvr_cli.verification.verifiers._sqlite import files as files

Compare = Literal["rows", "bird", "spider"]


def _stated(text: str) -> str:
    """A query as a completion."""
    return f"```sql\n{text}\n```"


VERSION = 2
EQUALITY: Equality = _stated
EARLIER: dict[str, Any] = {"compare": "rows"}

_LOGIC = "3"  # raised with each change of what this file, `_rows` or `_sqlite` decides
_GRACE_S = 5.0  # until the process is killed, where SQLite is deaf to its handler
_TEXT = 200  # characters of a reason
_NO_DATABASE = "the prompt has no column `db`, which names its database"
_SPLIT = (("> =", ">="), ("< =", "<="), ("! =", "!="))
_THIS_YEAR = re.compile(r"YEAR\s*\(\s*CURDATE\s*\(\s*\)\s*\)\s*", re.IGNORECASE)


def build(
    *,
    databases: str = "",
    compare: Compare = "rows",
    exceeding: Literal["fault", "wrong"] = "fault",
    timeout_s: float = 5.0,
    memory_mib: int = 1024,
) -> Isolated:
    """The verifier of SQL queries; `databases` is a folder, `extra` names a file of it as `db`.

    The gold is a query or a JSON list of queries, of which one must agree. `compare` says how:
    `rows` as a multiset, in the order of an ORDER BY outside all parentheses (not of equals), and
    numbers to nine digits; `bird` as a set; `spider` as Spider's test suites, on all databases of
    the folder of that name. A query that SQLite refuses is wrong. `exceeding` says what one is that
    takes too long or too much memory: a fault, or wrong.
    """
    if not databases:
        raise UsageError("`sql` has no databases", "name their folder: `sql:databases=DIR`")
    if timeout_s <= 0 or memory_mib < 64:
        raise ValueError("timeout_s must be above 0, memory_mib at least 64")

    def judge(extracted: str | None, answer: str, extra: dict[str, Any]) -> Verdict:
        path = files(databases).get(str(extra.get("db")))
        golds = _queries(answer)
        if path is None or not golds:
            named = f"there is no database `{extra['db']}`" if extra.get("db") else _NO_DATABASE
            return Verdict("bad_gold", reason=(named if golds else "it is empty")[:_TEXT])
        paths = _sqlite.suite(path) if compare == "spider" else (path,)
        verdict = _judge(extracted, golds, paths, compare, timeout_s)
        if verdict.status in ("timeout", "oom") and exceeding == "wrong":
            return Verdict(verdict.status, 0.0, False, verdict.extracted, verdict.reason)
        return verdict

    state = json.dumps(sorted(_state(databases, compare)))
    return Isolated(
        extract=lambda completion, finished: query.of(completion),
        judge=judge,
        limits=Limits(3 * timeout_s + _GRACE_S, memory_mib << 20),
        version=f"{_LOGIC} {sqlite3.sqlite_version} {hashlib.sha256(state.encode()).hexdigest()}",
        reads=("db",),
    )


def _state(databases: str, compare: Compare) -> list[tuple[str, int, int]]:
    """Name, size and time of each file that a verdict depends on."""
    paths = list(files(databases).values())
    if compare == "spider":
        paths = [one for path in paths for one in _sqlite.suite(path)]
    stats = [(path.name, os.stat(path)) for path in paths]
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]


def _judge(
    extracted: str | None,
    golds: list[str],
    paths: tuple[Path, ...],
    compare: Compare,
    seconds: float,
) -> Verdict:
    """Whether the query returns the rows of one of the gold queries on each database."""
    results = [_gold(paths, gold, compare, seconds) for gold in golds]
    known = [(g, r) for g, r in zip(golds, results, strict=True) if not isinstance(r, str)]
    if not known:
        return Verdict("bad_gold", reason=str(results[0])[:_TEXT])
    if extracted is None:
        return Verdict("no_answer", reward=0.0, correct=False, reason="it gives no query")
    if (count := len(query.statements(extracted))) != 1:
        reason = f"it gives {count} statements, one query is an answer"
        return Verdict("no_answer", reward=0.0, correct=False, reason=reason)
    deadline = time.monotonic() + seconds
    try:
        for place, path in enumerate(paths):
            _, rows = _sqlite.run(path, _spelled(extracted, compare), deadline)
            known = [(g, r) for g, r in known if _agree(r[place], rows, g, compare)]
            if not known:
                where = f" on `{path.name}`" if len(paths) > 1 else ""
                return Verdict("ok", 0.0, False, extracted, f"another result{where}")
    except _sqlite.TooLong:
        return Verdict("timeout", extracted=extracted, reason=f"it takes more than {seconds:g} s")
    except MemoryError:
        return Verdict("oom", extracted=extracted)
    except _rows.TooManyColumns:
        reason = "its columns are too much alike to find their order"
        return Verdict("error", extracted=extracted, reason=reason)
    except _sqlite.REFUSALS as error:
        reason = f"{type(error).__name__}: {error}"[:_TEXT]
        return Verdict("ok", 0.0, False, extracted, reason)
    return Verdict("ok", 1.0, True, extracted)


def _queries(answer: str) -> list[str]:
    try:
        parsed = json.loads(answer)
    except (ValueError, RecursionError):
        parsed = answer
    texts = parsed if isinstance(parsed, list) else [answer]
    return [text for text in texts if isinstance(text, str) and text.strip()]


@functools.lru_cache(maxsize=256)
def _gold(paths: tuple[Path, ...], text: str, compare: Compare, seconds: float) -> list[Rows] | str:
    """What a gold query returns on each database, or why there is nothing; run once a process."""
    deadline = time.monotonic() + seconds
    text = _spelled(text, compare)
    results = []
    try:
        for path in paths:
            names, rows = _sqlite.run(path, text, deadline)
            ends = _tie_ends(path, text, names, rows, seconds) if compare == "rows" else []
            results.append(Rows(rows, ends))
    except _sqlite.TooLong:
        return f"the gold query takes more than {seconds:g} s"
    except _sqlite.REFUSALS as error:
        return f"the gold query fails: {error}"
    return results


def _tie_ends(
    path: Path, text: str, names: list[str], rows: list[_rows.Row], seconds: float
) -> list[int]:
    """Where runs of rows end that are equal under the gold's ORDER BY; every row if unknown."""
    alone = [place + 1 for place in range(len(rows))]
    terms, place = query.order_terms(text)
    columns = [name.casefold() for name in names]
    places: list[int] = []
    added: list[str] = []
    for term in terms:
        name = term.strip('"`[]').casefold()
        if term.isdigit() and 0 < int(term) <= len(names):
            places.append(int(term) - 1)
        elif columns.count(name) == 1:
            places.append(columns.index(name))
        else:
            places.append(len(names) + len(added))
            added.append(term)
    longer = rows
    if added:
        if place is None:
            return alone
        more = f"{text[:place]}, {', '.join(added)} {text[place:]}"
        try:
            _, longer = _sqlite.run(path, more, time.monotonic() + seconds)
        except (_sqlite.TooLong, *_sqlite.REFUSALS):
            return alone
    if not terms or [row[: len(names)] for row in longer] != rows:
        return alone
    keys = [tuple(row[place] for place in places) for row in longer]
    return [n for n in alone if n == len(rows) or keys[n - 1] != keys[n]]


def _spelled(text: str, compare: Compare) -> str:
    """A query as it is run: Spider's evaluation mends split operators and drops DISTINCT."""
    if compare != "spider":
        return text
    for split, joined in _SPLIT:
        text = text.replace(split, joined)
    return query.without_distinct(_THIS_YEAR.sub("2020", text))


def _agree(gold: Rows, rows: list[_rows.Row], text: str, compare: Compare) -> bool:
    if compare == "bird":
        return _rows.same_set(gold, rows)
    if compare == "spider":
        return _rows.same_denotation(gold, rows, ordered="order by" in text.lower())
    return _rows.same_rows(gold, rows, ordered=query.is_ordered(text))

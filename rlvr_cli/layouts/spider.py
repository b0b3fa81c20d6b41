"""Spider and BIRD: `question`, `db_id` and a query, on SQLite databases in a folder.

The prompt has the tables of the database above the question; without them nobody can answer it.
BIRD's query is `SQL`; its `evidence`, which says what words of the question mean, goes below it.
"""

import contextlib
import functools
import sqlite3
from pathlib import Path
from typing import Any

from rlvr_cli.errors import UsageError
from rlvr_cli.layouts import _common
from rlvr_cli.protocols import Layout, Unusable
from rlvr_cli.specs import grammar
from rlvr_cli.verification.verifiers import sql

SAYS = "tables are above the question, the gold is `query` or `SQL`, the verifier sql on `db_id`"
_ASK = "{tables}\n\n-- Write one SQLite query that answers: {question}\n"


def recognises(rows: list[dict[str, Any]]) -> bool:
    return _common.has(rows[0], "question", "db_id") and ("query" in rows[0] or "SQL" in rows[0])


def build(*, databases: str = "") -> Layout:
    """`databases` is the folder of DB_ID.sqlite or DB_ID/DB_ID.sqlite."""
    if not databases:
        raise UsageError(
            "a data set like Spider needs the folder of its databases",
            "name it with `rlvr prompts SOURCE --layout spider:databases=DIR`, or read columns by "
            "their names with --layout none",
        )
    files = sql.files(databases)

    def read(row: dict[str, Any]) -> dict[str, Any]:
        name = str(_common.value(row, "db_id"))
        if name not in files:
            raise Unusable(f"there is no database `{name}` in `{databases}`")
        question = _common.text(row, "question")
        if row.get("evidence"):
            question += f"\n-- {' '.join(str(row['evidence']).split())}"
        gold = "query" if "query" in row else "SQL"
        return {
            "prompt": _ASK.format(tables=_tables(files[name]), question=question),
            "answer": str(_common.value(row, gold)),
            "verifier": f"sql:databases={grammar.quoted(databases, within='+')}",
            "used": {"question", gold, "evidence"},
            "extra": {"db": name},
        }

    return read


@functools.cache
def _tables(path: Path) -> str:
    """The statements that create the tables of a database, in the order of their names."""
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    query = "select sql from sqlite_master where type = 'table' and sql is not null order by name"
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
            return ";\n".join(text.strip() for (text,) in connection.execute(query)) + ";"
    except sqlite3.Error as error:
        raise Unusable(f"its database cannot be read: {error}") from error

"""Verdicts that are known already: in memory within a run, on disk between runs."""

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from rlvr_cli.protocols import Verdict
from rlvr_cli.storage import user_cache

IN_MEMORY = 20_000  # verdicts, about 8 MB
_LASTING = (
    "ok",
    "no_answer",
    "skipped",
    "bad_gold",
)  # a time-out may be due to what else the machine did
_AT_ONCE = 500


def default_path() -> Path:
    return user_cache.folder() / "verdicts.sqlite"


class Cache:
    """Verdicts by the hash of everything that decides them; faults are not stored on disk.

    Memory holds the IN_MEMORY most recently used. The file only grows, by about 130 bytes each.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.trouble: str | None = None
        """Why the file is not used, if it is not."""
        self._memory: dict[bytes, Verdict] = {}
        self._file: sqlite3.Connection | None = None

    def get(self, keys: Iterable[bytes]) -> dict[bytes, Verdict]:
        """The known ones among these."""
        known, missing = {}, []
        for key in keys:
            if key in self._memory:
                known[key] = self._memory[key] = self._memory.pop(key)  # used last
            else:
                missing.append(key)
        for start in range(0, len(missing), _AT_ONCE):
            known |= self._read(missing[start : start + _AT_ONCE])
        return known

    def put(self, verdicts: dict[bytes, Verdict]) -> None:
        self._remember(verdicts)
        lasting = [(k, json.dumps(vars(v))) for k, v in verdicts.items() if v.status in _LASTING]
        with self._trusting():
            if lasting and (file := self._open()):
                with file:
                    file.executemany("insert or replace into verdicts values (?, ?)", lasting)

    def close(self) -> None:
        if self._file:
            self._file.close()
            self._file = None

    def _read(self, keys: list[bytes]) -> dict[bytes, Verdict]:
        stored: dict[bytes, Verdict] = {}
        with self._trusting():
            if file := self._open():
                marks = ",".join("?" * len(keys))
                query = f"select key, verdict from verdicts where key in ({marks})"
                rows = file.execute(query, keys)
                stored = {key: Verdict(**json.loads(text)) for key, text in rows}
        self._remember(stored)
        return stored

    def _remember(self, verdicts: dict[bytes, Verdict]) -> None:
        for key, verdict in verdicts.items():
            self._memory.pop(key, None)
            self._memory[key] = verdict
        while len(self._memory) > IN_MEMORY:
            del self._memory[next(iter(self._memory))]

    def _open(self) -> sqlite3.Connection | None:
        if self._file is None and self.path and not self.trouble:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(self.path, timeout=30)
            self._file.execute("pragma journal_mode=wal")
            self._file.execute("pragma synchronous=off")  # what is lost is only verified again
            self._file.execute(
                "create table if not exists verdicts (key blob primary key, verdict text not null)"
                " without rowid"
            )
        return self._file

    @contextlib.contextmanager
    def _trusting(self) -> Iterator[None]:
        """Continues without the file where it cannot be read or written, and keeps the reason."""
        try:
            yield
        except (sqlite3.Error, OSError, ValueError, TypeError) as error:
            self.trouble = str(error)
            with contextlib.suppress(sqlite3.Error):
                self.close()

"""The lines of a run's metrics.jsonl as they are written, and whether more will come."""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from rlvr_cli.errors import DataError
from rlvr_cli.storage import locks, run_folders

POLL_S = 1.0
METRICS, LOCK = "metrics.jsonl", "_lock"


def config(run: Path) -> dict[str, dict[str, Any]]:
    """The tables of a run's configuration; an error if the folder is not a run of train."""
    if not run_folders.is_run(run):
        raise DataError(
            f"`{run}` is not a run of train: it has no {run_folders.CONFIG}",
            "name the --out of `rlvr train`",
        )
    return run_folders.config(run)


class Metrics:
    """The complete lines of a run's metrics.jsonl; a resumed run writes the file again."""

    def __init__(self, run: Path) -> None:
        self._path = run / METRICS
        self._file: BinaryIO | None = None  # open, so that no other file gets its inode number
        self._line = 0

    def fresh(self) -> Iterator[dict[str, Any]]:
        """The records of lines that were completed since the last call.

        Those of the entire file where it was replaced; a line without its end is left for later.
        """
        if self._is_replaced():
            self.close()
            self._line = 0
            if self._path.exists():
                self._file = open(self._path, "rb")  # noqa: SIM115
        if self._file is None:
            return
        while (line := self._file.readline()).endswith(b"\n"):
            self._line += 1
            yield self._record(line)
        self._file.seek(-len(line), os.SEEK_CUR)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    def _is_replaced(self) -> bool:
        if self._file is None:
            return True
        try:
            there, here = os.stat(self._path), os.fstat(self._file.fileno())
        except FileNotFoundError:
            return False
        return not os.path.samestat(there, here) or there.st_size < self._file.tell()

    def _record(self, line: bytes) -> dict[str, Any]:
        try:
            record = json.loads(line)
            if isinstance(record, dict) and isinstance(record.get("step"), int):
                return record
            why = "it has no `step`"
        except (ValueError, RecursionError) as error:
            why = str(error)
        raise DataError(
            f"line {self._line} of `{self._path}` is not as it was written: {why}",
            "run the `rlvr train` of that run again, which repairs the file",
        )


def follow(run: Path, is_over: Callable[[], bool]) -> Iterator[dict[str, Any]]:
    """The records of a run as they are written, until the last step's or until it is over.

    Records of a resumed run's earlier steps come again.
    """
    metrics, newest = Metrics(run), -1
    try:
        while True:
            was_over = is_over()  # before the file is read to its end
            for record in metrics.fresh():
                newest = record["step"]
                yield record
            if was_over or is_complete(run, newest):
                return
            time.sleep(POLL_S)
    finally:
        metrics.close()


def is_complete(run: Path, step: int) -> bool:
    """Whether a step is the run's last; `--steps` may be raised when it is resumed."""
    return step >= int(config(run).get("train", {}).get("steps", 1 << 60))


def is_running(run: Path) -> bool:
    """Whether a process trains here now."""
    return locks.is_locked(run / LOCK)

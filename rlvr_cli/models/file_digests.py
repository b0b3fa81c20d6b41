"""sha256 of large files: several at a time, and cached until size, time or inode changes.

Digests are in the user's cache, one small file per path. If that is missing or damaged, the file
is read again. Digests of files that this process wrote are in memory.
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rlvr_cli.errors import DataError
from rlvr_cli.runtime import cores
from rlvr_cli.storage import user_cache

REMEMBERED = 1 << 24  # bytes: the least size of a file that takes longer to read than to look up
_SETTLED = 2 * 10**9  # ns: a later write to a file that is younger might leave its time as it is
_FOLDER = "digests"
_MOST_NOTED = 256
_noted: dict[tuple[int, int], tuple[dict[str, int], str]] = {}  # by device and inode


def sha256_of(paths: Iterable[Path]) -> list[str]:
    """The hexadecimal sha256 of each file; hashlib leaves the other threads their cores."""
    paths = list(paths)
    workers = min(cores.available(), len(paths))
    if workers < 2:
        return [_sha256(path) for path in paths]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(_sha256, paths))


def note(descriptor: int, sha256: str) -> None:
    """Keeps the digest of an open file that this process has just written to its end."""
    state = _state(descriptor)
    _noted[state["device"], state["inode"]] = state, sha256
    while len(_noted) > _MOST_NOTED:
        _noted.pop(next(iter(_noted)), None)


def _sha256(path: Path) -> str:
    if not path.is_file():
        raise DataError(f"`{path}` is no file", "remove what is in its place")
    with open(path, "rb") as file:
        state, now = _state(file.fileno()), time.time_ns()
        if state["size"] < REMEMBERED:
            return hashlib.file_digest(file, "sha256").hexdigest()
        noted, known = _noted.get((state["device"], state["inode"]), ({}, ""))
        if noted == state:
            return known
        if recalled := _recall(path, state):
            return recalled
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        is_settled = max(state["mtime_ns"], state["ctime_ns"]) < now - _SETTLED
        if is_settled and _state(file.fileno()) == state:
            _remember(path, {**state, "path": str(path.resolve()), "sha256": digest})
    return digest


def _state(descriptor: int) -> dict[str, int]:
    """What differs after a change: programs set a file's mtime back, but never its ctime."""
    seen = os.fstat(descriptor)
    return {
        "size": seen.st_size,
        "mtime_ns": seen.st_mtime_ns,
        "ctime_ns": seen.st_ctime_ns,
        "inode": seen.st_ino,
        "device": seen.st_dev,
    }


def _record_of(path: Path) -> Path:
    name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]
    return user_cache.folder() / _FOLDER / f"{name}.json"


def _recall(path: Path, state: dict[str, int]) -> str | None:
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # the last without a home
        known = json.loads(_record_of(path).read_bytes())
        if isinstance(known, dict) and state.items() <= known.items():
            digest = known.get("sha256")
            return digest if isinstance(digest, str) and len(digest) == 64 else None
    return None


def _remember(path: Path, known: dict[str, str | int]) -> None:
    with contextlib.suppress(OSError, RuntimeError):
        record = _record_of(path)
        temporary = record.with_name(f"_tmp-{record.name}-{os.getpid()}")
        record.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_text(json.dumps(known) + "\n")
            os.replace(temporary, record)
        except OSError:
            temporary.unlink(missing_ok=True)

"""Files that are complete or absent, and locks that die with their process."""

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError, UserError

_GLANCE_S = 0.1  # a lock that `is_locked` takes is free again by then


def canonical_json(value: Any) -> str:
    """One text for one value: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def pretty_json(value: Any) -> bytes:
    return (json.dumps(value, sort_keys=True, indent=1, allow_nan=False) + "\n").encode()


def write_atomic(path: Path, data: bytes) -> None:
    """Writes `path` completely or not at all: a temporary file, fsync, rename, folder fsync."""
    if path.is_dir():
        raise UserError(f"cannot write `{path}`: it is a directory", "name a file with --out")
    temporary = path.with_name(f"_tmp-{path.name}-{os.getpid()}")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise write_error(path, error) from error


def sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


class Syncing:
    """Folders on their way to disk while this process works on.

    A kill loses nothing of them, as the system has their bytes; a power cut may.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._folders: list[tuple[Path, Future[None]]] = []

    def begin(self, folder: Path) -> None:
        self._folders.append((folder, self._pool.submit(_sync, folder)))

    @property
    def is_pending(self) -> bool:
        return not all(done.done() for _, done in self._folders)

    def wait(self) -> None:
        """Returns when all are on disk; an error where one could not be brought there."""
        while self._folders:
            folder, done = self._folders.pop()
            try:
                done.result()
            except OSError as error:
                raise write_error(folder, error) from error


@contextlib.contextmanager
def whole_folder(path: Path, *, replace: bool = False, sync: bool = True) -> Iterator[Path]:
    """A temporary folder to write to, which then becomes `path`, completely or not at all.

    Without `sync` no kill leaves less of it, and a power cut may.
    """
    temporary = path.with_name(f"_tmp-{path.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    make_folder(temporary)
    try:
        yield temporary
        _set_modes(temporary)
        if sync:
            _sync(temporary)
        if replace and path.exists():
            shutil.rmtree(path)
        temporary.rename(path)
        if sync:
            sync_folder(path.parent)
    except Exception as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if cause := _cause_on_disk(error):
            raise write_error(path, cause) from error
        raise


def _cause_on_disk(error: Exception) -> OSError | None:
    """The error of the file system that one is or, from a library in Rust, tells of in its text."""
    if isinstance(error, OSError):
        return error
    told = re.search(r"\(os error (\d+)\)", str(error))
    return OSError(int(told[1]), os.strerror(int(told[1]))) if told else None


def _set_modes(path: Path) -> None:
    """Gives all files below a folder the mode that the user's umask gives.

    Some libraries write through temporary files that their owner alone may read.
    """
    mode = _mode_of_new_files(path)
    for child in path.rglob("*"):
        if child.is_file() and stat.S_IMODE(child.stat().st_mode) != mode:
            child.chmod(mode)


def _sync(path: Path) -> None:
    """Brings a folder and all below it to disk."""
    for child in path.rglob("*"):
        if child.is_dir():
            sync_folder(child)
        else:
            sync_file(child)
    sync_folder(path)
    sync_folder(path.parent)


def _mode_of_new_files(folder: Path) -> int:
    probe = folder / f"_tmp-mode-{os.getpid()}"
    probe.touch()
    try:
        return stat.S_IMODE(probe.stat().st_mode)
    finally:
        probe.unlink()


def remove(path: Path) -> None:
    """Removes a file or a folder, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(path, error) from error


def write_error(path: Path, error: OSError) -> UserError:
    """The one line for a write that failed, by its cause."""
    hints = {
        errno.ENOSPC: "free some space and run the same command again; finished parts are kept",
        errno.EDQUOT: "free some quota and run the same command again; finished parts are kept",
        errno.EACCES: "choose another place with --out",
        errno.EROFS: "choose another place with --out",
        errno.EEXIST: "a file is in the way; choose another place with --out",
        errno.ENOTDIR: "a file is in the way; choose another place with --out",
    }
    reason = os.strerror(error.errno) if error.errno else str(error)
    return UserError(f"cannot write `{path}`: {reason}", hints.get(error.errno or 0, ""))


def read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise DataError(f"cannot read `{path}`: {reason}", "check the path") from error


@contextlib.contextmanager
def locked(path: Path, *, shared: bool = False, wait: bool = False) -> Iterator[None]:
    """Holds the lock file `path`; a second holder is refused at once, or waits.

    The kernel frees the lock when its process dies, so a killed run never blocks the next one.
    """
    mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    descriptor = _acquire(path, mode if wait else mode | fcntl.LOCK_NB)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # the last one out removes the file
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock file; asking takes the lock for a moment."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def _acquire(path: Path, mode: int) -> int:
    deadline = time.monotonic() + _GLANCE_S
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise write_error(path.parent, error) from error
        try:
            fcntl.flock(descriptor, mode)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            pass  # the holder before us removed its lock file: take a new one
        except BlockingIOError as error:
            os.close(descriptor)
            if time.monotonic() < deadline:
                time.sleep(0.005)
                continue
            raise UserError(
                f"another process is writing `{path.parent}`",
                "wait for it, or stop it",
            ) from error
        except OSError as error:
            os.close(descriptor)
            raise write_error(path, error) from error
        os.close(descriptor)

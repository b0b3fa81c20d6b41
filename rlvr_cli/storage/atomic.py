"""Files that are complete or absent."""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError, UserError
from rlvr_cli.storage import disk
from rlvr_cli.storage.disk import write_error as write_error


def canonical_json(value: Any) -> str:
    """One text for one value: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest_of(value: Any) -> str:
    """The SHA-256 of a value's one text, in hexadecimal."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


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
        refused = write_error(path, error)  # before there is room again
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise refused from error


def append(path: Path, data: bytes) -> None:
    """Adds to the end of a file, all of it or nothing, and brings it to disk."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            end = os.fstat(descriptor).st_size
            _append(descriptor, data, end)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise write_error(path, error) from error


def _append(descriptor: int, data: bytes, end: int) -> None:
    try:
        while data:
            data = data[os.write(descriptor, data) :]
        os.fsync(descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, end)
        raise


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
    """Folders that are being synced to disk while this process continues.

    A kill loses nothing of them, as the kernel has their bytes; a power failure may.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._folders: list[tuple[Path, Future[None], bool]] = []

    def begin(self, folder: Path, *, is_new: bool = True) -> None:
        """Brings a folder to disk; one that `is_new` is removed if that fails."""
        self._folders.append((folder, self._pool.submit(_sync, folder), is_new))

    @property
    def is_pending(self) -> bool:
        """Whether one of them is not on disk yet, or could not be written."""
        return any(not done.done() or done.exception() for _, done, _ in self._folders)

    def wait(self) -> None:
        """Returns when all are on disk; an error if one could not be written.

        What the disk did not take may be read back for a while and be gone later.
        """
        while self._folders:
            folder, done, is_new = self._folders.pop()
            try:
                done.result()
            except OSError as error:
                if is_new:
                    shutil.rmtree(folder, ignore_errors=True)
                raise write_error(folder, error) from error


@contextlib.contextmanager
def write_folder(path: Path, *, replace: bool = False, sync: bool = True) -> Iterator[Path]:
    """A temporary folder to write to, which then becomes `path`, completely or not at all.

    Without `sync` no kill leaves less of it, and a power cut may.
    """
    temporary = path.with_name(f"_tmp-{path.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        yield temporary
        _set_modes(temporary)
        if sync:
            _sync(temporary)
        if replace and path.exists():
            shutil.rmtree(path)
        temporary.rename(path)
        if sync:
            sync_folder(path.parent)
    except BaseException as error:
        is_ours = isinstance(error, UserError) or not isinstance(error, Exception)
        cause = None if is_ours else disk.cause_of(error)
        refused = cause and write_error(path, cause)  # before there is room again
        shutil.rmtree(temporary, ignore_errors=True)
        if refused:
            raise refused from error
        raise


def _set_modes(path: Path) -> None:
    """Gives all files below a folder the mode that the user's umask gives.

    Some libraries write through temporary files that only their owner may read.
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


@contextlib.contextmanager
def made_folder(path: Path) -> Iterator[None]:
    """Makes a folder, and those that it is in; what of them is new and empty goes after an error.

    Another process that is to write there makes it again.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    make_folder(path)
    try:
        yield
    except BaseException:
        for folder in missing:
            with contextlib.suppress(OSError):  # it is not empty
                folder.rmdir()
        raise


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(path, error) from error


def read_bytes(path: Path) -> bytes:
    """The bytes of a file; an error, and no waiting, where the path is a pipe or another thing."""
    data = read_if_there(path)
    if data is None:
        raise DataError(f"cannot read `{path}`: {os.strerror(errno.ENOENT)}", "check the path")
    return data


def read_if_there(path: Path) -> bytes | None:
    """`read_bytes`; None without a file, also of one that another process removes meanwhile."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would wait
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise DataError(f"`{path}` is no file", "remove what is in its place")
            with open(descriptor, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError):  # the latter where its folder is a file
        return None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise DataError(f"cannot read `{path}`: {reason}", "check the path") from error

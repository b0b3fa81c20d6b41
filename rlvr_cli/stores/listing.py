"""What was pushed to a place in a store: every file with its size and sha256.

_pushing.json    what a push is about to send, written first: the place is incomplete
_pushed.json     the same once all has arrived, written last: the place is complete
"""

import contextlib
import functools
import hashlib
import os
import re
import stat
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

from rlvr_cli.errors import DataError, UserError
from rlvr_cli.storage import atomic, manifest as manifests

PUSHING, PUSHED = "_pushing.json", "_pushed.json"
# What only the processes need that write a directory at this moment.
_LEFT_OUT = ("_tmp-*", "_lock*", "_lease-*", PUSHING, PUSHED)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_FORMAT = 1
THREADS = 8


@dataclass(frozen=True)
class File:
    """A file's size in bytes and its sha256, empty where that is not known."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Listing:
    """The files of a directory by their relative names.

    `before` holds those of an earlier push that this one is to replace.
    """

    files: dict[str, File]
    before: dict[str, File] = field(default_factory=dict)

    @functools.cached_property
    def digest(self) -> str:
        return atomic.digest_of(_plain(self.files))

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files.values())

    def sealed(self) -> bytes:
        content: dict[str, Any] = {"format": _FORMAT, "files": _plain(self.files)}
        if self.before:
            content["before"] = _plain(self.before)
        return manifests.seal(content)

    def under(self, folder: str) -> dict[str, File]:
        """The files below one of its folders by their names from there; all if that is empty."""
        start = f"{folder}/" if folder else ""
        inner = {name: file for name, file in self.files.items() if name.startswith(start)}
        return {name.removeprefix(start): file for name, file in inner.items()}


def parse(data: bytes, where: str) -> Listing:
    """The listing in these bytes; an error if no push wrote them."""
    content = manifests.unseal(data)
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
        if content and content["format"] == _FORMAT:
            return Listing(_files(content["files"]), _files(content.get("before", {})))
    raise DataError(
        f"`{where}` is not a listing of this rlvr, or was cut off or changed",
        "remove it there and push the directory again",
    )


def _files(plain: Mapping[str, Any]) -> dict[str, File]:
    files = {}
    for name, (size, sha256) in plain.items():
        is_size = type(size) is int and size >= 0
        if not (is_size and (sha256 == "" or _SHA256.fullmatch(sha256))):
            raise ValueError(name)
        files[name] = File(size, sha256)
    require_names(files)
    return files


def _plain(files: Mapping[str, File]) -> dict[str, list[Any]]:
    return {name: [file.size, file.sha256] for name, file in sorted(files.items())}


def require_names(names: Mapping[str, Any]) -> None:
    """An error if a name leaves the directory, or is a file and a folder at once."""
    for name in names:
        parts = name.split("/")
        if any(part in ("", ".", "..") for part in parts) or "\0" in name:
            raise DataError(f"{name!r} is not the name of a file in a folder", "rename it there")
        if outer := next((str(p) for p in PurePosixPath(name).parents if str(p) in names), None):
            raise DataError(f"`{outer}` is a file and a folder there", "rename one of the two")


@dataclass(frozen=True)
class Tree:
    """A directory on this machine, with the size and time of each file when it was read."""

    folder: Path
    listing: Listing
    states: dict[str, tuple[int, int]]


def of_file(path: Path) -> Tree:
    """One file, whose name in the listing is empty."""
    seen = state(path)
    return Tree(path, Listing({"": File(seen[0], sha256_of(path))}), {"": seen})


def of_folder(folder: Path) -> Tree:
    """All files of a directory, after they are read."""
    paths = _paths(folder)
    if not paths:
        raise DataError(f"`{folder}` holds no file", "name another directory")
    with ThreadPoolExecutor(THREADS) as pool:
        names = sorted(paths)
        read = pool.map(lambda name: (state(paths[name]), sha256_of(paths[name])), names)
        known = dict(zip(names, read, strict=True))
    files = {name: File(seen[0], sha256) for name, (seen, sha256) in known.items()}
    return Tree(folder, Listing(files), {name: seen for name, (seen, _) in known.items()})


def _paths(folder: Path) -> dict[str, Path]:
    """Every file below a folder; links to files are followed, those to folders refused."""
    paths = {}
    for here, folders, names in os.walk(folder):
        inner = [name for name in folders if not _is_left_out(name)]
        folders[:] = inner
        for name in (*inner, *(name for name in names if not _is_left_out(name))):
            path = Path(here, name)
            if name in inner and not path.is_symlink():
                continue
            if not path.is_file():
                what = "a link to a folder" if path.is_dir() else "no file"
                raise UserError(f"`{path}` is {what}", "put a copy in its place, or remove it")
            paths[path.relative_to(folder).as_posix()] = path
    return paths


def _is_left_out(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in _LEFT_OUT)


def state(path: Path) -> tuple[int, int]:
    """A file's size, and when it was changed."""
    try:
        seen = path.stat()
    except OSError as error:
        raise UserError(f"`{path}` is gone", "run the command again") from error
    if not stat.S_ISREG(seen.st_mode):
        raise UserError(f"`{path}` is no file", "remove it, or put a file in its place")
    return seen.st_size, seen.st_mtime_ns


def sha256_of(path: Path) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(
            f"cannot read `{path}`: {os.strerror(error.errno or 0)}", "check it"
        ) from error

"""Disks that are full or fail: the message of a failed write, and checks for free space."""

import errno
import os
import re
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

from rlvr_cli.errors import Advice, UserError

ANYWAY = "RLVR_ANY_SPACE"
_AGAIN = "and run the same command again; finished parts are kept"
_HINTS = {
    errno.ENOSPC: f"free some space {_AGAIN}",
    errno.EDQUOT: f"free some quota {_AGAIN}",
    errno.EFBIG: f"allow larger files there, as with `ulimit -f unlimited`, {_AGAIN}",
    errno.EIO: f"its disk or the connection to it fails: repair that, {_AGAIN}",
    errno.ENOENT: "its folder was moved or removed: run the command again where it is now",
    errno.EACCES: "`ls -ld` says who may write there: let them allow it, or choose another place",
    errno.EROFS: f"mount it for writing {_AGAIN}; or choose another place",
    errno.EEXIST: "a file is in the way: move it, or choose another place",
    errno.ENOTDIR: "a file is in the way: move it, or choose another place",
}
_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
_DISK_MESSAGES = {os.strerror(number): number for number in _OF_DISKS}
_DISK_MESSAGES["database or disk is full"] = errno.ENOSPC  # sqlite's words
_NO_TEMPORARY = "No usable temporary directory found"  # of Python's tempfile


def write_error(path: Path, error: OSError) -> UserError:
    """The one line for a write that failed, by its cause."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    hint = _HINTS.get(error.errno or 0, "")
    if error.errno == errno.ENOSPC and _lacks_inodes(path):
        reason += ", as to the number of files"
        hint = f"remove some files there (`df -i` counts them) {_AGAIN}"
    return UserError(f"cannot write `{path}`: {reason}", hint)


def _lacks_inodes(path: Path) -> bool:
    try:
        state = os.statvfs(_existing(path))
    except OSError:
        return False
    return state.f_files > 0 and not state.f_favail and state.f_bavail > 0


def cause_of(error: BaseException) -> OSError | None:
    """The file system error that caused an error; those of a full or failing disk come first.

    Libraries in Rust, databases and other processes report it only in their message.
    """
    for one in _chain(error):
        if isinstance(one, OSError) and (one.errno in _OF_DISKS or _NO_TEMPORARY in str(one)):
            return one
        if match := re.search(r"\(os error (\d+)\)", str(one)):
            return OSError(int(match[1]), os.strerror(int(match[1])))
        for text, number in _DISK_MESSAGES.items():
            if text in str(one):
                return OSError(number, os.strerror(number))
    return error if isinstance(error, OSError) else None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and its causes, the last one first."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        yield error
        error = error.__cause__ or error.__context__


def explain(error: BaseException) -> UserError | None:
    """What to say where a full or failing disk caused an error; None if another thing did."""
    cause = cause_of(error)
    if cause is None or isinstance(error, UserError):
        return None
    if _NO_TEMPORARY in str(cause):
        return UserError(
            "no folder for temporary files can be written",
            "name one that has room: `export TMPDIR=FOLDER`",
        )
    if cause.errno not in _OF_DISKS:
        return None
    if cause.filename is None:
        return UserError(
            f"cannot read or write a file: {os.strerror(cause.errno)}",
            "see with `df -h` which disk is full, those of TMPDIR and ~/.cache among them, "
            f"{_AGAIN}",
        )
    return write_error(Path(os.fsdecode(cause.filename)), cause)


def refuse(error: BaseException) -> None:
    """Raises a `UserError` if a full or failing disk caused an error; else does nothing."""
    if refused := explain(error):
        raise refused from error


def free(path: Path) -> int | None:
    """The free bytes on the disk of a path, which need not exist yet; None if unknown."""
    try:
        usage = shutil.disk_usage(_existing(path))
    except OSError:
        return None
    return usage.free if usage.total else None  # some network file systems do not say


def _existing(path: Path) -> Path:
    path = Path(os.path.abspath(path))
    return next(place for place in (path, *path.parents) if place.exists())


def require(path: Path, size: int, what: str, hint: str = "", *, spare: int = 0) -> None:
    """An error if the disk of a path lacks room for `size` bytes; quotas are not checked.

    `spare` bytes more will be free by then. With RLVR_ANY_SPACE set it is a warning: a file system
    that compresses may have the room.
    """
    room = free(path)
    if room is None or size <= room + spare:
        return
    room += spare
    message = f"{what} takes {gb(size)}, and {gb(room)} are free in `{path}`"
    if os.environ.get(ANYWAY):
        warnings.warn(message, Advice, stacklevel=2)
        return
    hint = hint or f"free {gb(size - room)} there, or choose another place with --out"
    raise UserError(message, f"{hint}; `export {ANYWAY}=1` tries anyway")


def gb(size: int) -> str:
    return f"{size / 1e9:.3g} GB" if size >= 10**8 else f"{size / 1e6:.3g} MB"

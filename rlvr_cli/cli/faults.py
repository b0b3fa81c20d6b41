"""Errors that the machine or the data cause and that no code below caught, as a user's errors."""

import errno
import os

from rlvr_cli.errors import DataError, UserError

_DEBUG = "RLVR_DEBUG=1 shows where"
_ADVICE = {
    errno.ENOSPC: "free space there; what is complete is kept, and the same command resumes",
    errno.EDQUOT: "free some of your quota; what is complete is kept, and the same command resumes",
    errno.EMFILE: "allow more open files with `ulimit -n 4096`",
    errno.ENFILE: "the machine has too many open files: end some programs",
    errno.EAGAIN: "allow more processes and threads with `ulimit -u`, or end some",
    errno.ENOMEM: "end other programs, or take a machine with more memory",
    errno.EACCES: "check the permissions, and whose it is",
    errno.EPERM: "check the permissions, and whose it is",
    errno.EROFS: "name a place that can be written to",
    errno.ENAMETOOLONG: "give it a shorter name",
    errno.ENOENT: "check that it is there",
    errno.ELOOP: "it is a link that leads back to itself",
    errno.EISDIR: "it is a folder, and a file is needed",
    errno.ENOTDIR: "it is a file, and a folder is needed",
    errno.EIO: "the disk or the network failed: try again, and check the disk",
    errno.ESTALE: "the network file system lost it: mount it again",
}

_NO_MEMORY = ("DefaultCPUAllocator", "failed to map segment from shared object")


def explained(error: BaseException) -> UserError | None:
    """An error of the machine or of what was read in a line; None where the code is at fault."""
    if isinstance(error, MemoryError) or any(text in str(error) for text in _NO_MEMORY):
        return UserError(
            "the memory of this machine, or its limit, is used up", _ADVICE[errno.ENOMEM]
        )
    if isinstance(error, RecursionError):
        return DataError(
            "a value that was read nests too deep", f"flatten it; {_DEBUG} it was read"
        )
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return UserError("no further thread can be started", _ADVICE[errno.EAGAIN])
    if isinstance(error, UnicodeEncodeError):
        bad = error.object[error.start : error.end][:20]
        return DataError(f"{bad!a} cannot be written as {error.encoding}", _DEBUG)
    if isinstance(error, UnicodeDecodeError):
        return DataError(f"bytes that are no {error.encoding}: {error.reason}", _DEBUG)
    if isinstance(error, OSError):
        return _of_system(error)
    return None


def _of_system(error: OSError) -> UserError:
    where = ": ".join(f"`{os.fsdecode(n)}`" for n in (error.filename, error.filename2) if _named(n))
    if error.errno == errno.ENOENT and not where and _is_nowhere():
        return UserError("the folder that this shell is in was removed", "`cd` to another one")
    what = error.strerror or str(error) or type(error).__name__
    advice = _ADVICE.get(error.errno or 0, _DEBUG)
    return UserError(f"{where}: {what}" if where else f"{type(error).__name__}: {what}", advice)


def _is_nowhere() -> bool:
    """Whether the working directory is gone."""
    try:
        os.getcwd()
    except OSError:
        return True
    return False


def _named(name: object) -> bool:
    return isinstance(name, str | bytes | os.PathLike) and bool(os.fspath(name))

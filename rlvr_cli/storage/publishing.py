"""Files that get their name once, from whichever process of whichever host is first.

The data is synced under a temporary name, which carries the tag of its writer, and linked to its
name without replacing. Nothing here trusts a clock or a lock: of two writers one wins, and the
other throws its copy away.
"""

import contextlib
import errno
import os
from collections.abc import Callable
from pathlib import Path

from rlvr_cli.storage import atomic

# What file systems without hard links answer: FAT and some network and user-space ones.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def write_new(path: Path, data: bytes, tag: str) -> bool:
    """Writes `path`, completely or not at all, unless it is there; whether this call did."""
    return _write(path, data, tag, link)


def write_over(path: Path, data: bytes, tag: str) -> None:
    """Replaces `path`, completely or not at all."""

    def replace(temporary: Path, target: Path) -> bool:
        os.replace(temporary, target)
        return True

    _write(path, data, tag, replace)


def _write(path: Path, data: bytes, tag: str, publish: Callable[[Path, Path], bool]) -> bool:
    """Writes a temporary file and publishes it; one that was swept meanwhile is written again."""
    temporary = path.with_name(f"_tmp-{path.name}-{tag}")
    try:
        while True:
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileNotFoundError):
                return publish(temporary, path)
    except OSError as error:
        raise atomic.write_error(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def link(source: Path, target: Path, *, rename: bool = True) -> bool:
    """Gives a file a further name unless that is taken; whether it has it now.

    Where there are no hard links the file is renamed, which is as good for a single writer; an
    error without `rename`.
    """
    try:
        os.link(source, target)
    except FileExistsError:
        # NFS may answer so if the reply to a successful link was lost and the request repeated.
        with contextlib.suppress(FileNotFoundError):
            return os.path.samefile(source, target)
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS or not rename:
            raise
        if os.path.lexists(target):
            return False
        os.rename(source, target)
    return True


def set_aside(path: Path, tag: str, is_wanted: Callable[[Path], bool]) -> None:
    """Removes a file unless it is wanted.

    It loses its name before it is looked at: what another process has put there meanwhile is
    seen, and gets its name back.
    """
    aside = path.with_name(f"_tmp-{path.name}-{tag}-aside")
    try:
        os.rename(path, aside)
        if is_wanted(aside):
            link(aside, path)
        atomic.remove(aside)
    except FileNotFoundError:
        return
    except OSError as error:
        raise atomic.write_error(path, error) from error

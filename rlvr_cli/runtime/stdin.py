"""Stdin as a source: `-` means the piped data, which is kept in a temporary file.

Commands read a source several times, and a pipe can be read once.
"""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

from rlvr_cli.errors import UsageError, UserError

DASH = Path("-")
NAME = "stdin"
_LONGEST_PATH = 4096  # bytes
_spooled: tuple[object, Path] | None = None  # the stream that was read, and the file that keeps it
_path: tuple[object, str] | None = None  # the stream that was read, and the path that it held


def is_terminal() -> bool:
    return sys.stdin is None or sys.stdin.isatty()


def spool() -> Path:
    """The file that holds the data of stdin, which is read only once."""
    global _spooled
    if _spooled is not None and _spooled[0] is sys.stdin:
        return _spooled[1]
    if is_terminal():
        raise UsageError("`-` is stdin, and nothing is piped in", "name a file, or pipe one in")
    _spooled = sys.stdin, _kept()
    return _spooled[1]


def give_to_terminal() -> None:
    """Has the terminal for stdin, whose data was kept, so that keys can be read; if there is one.

    Only in the process that the user started, whose stdin Python has not replaced.
    """
    if sys.stdin is not sys.__stdin__ or is_terminal():
        return
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        return
    os.dup2(terminal, 0)
    os.close(terminal)


def _kept() -> Path:
    try:
        folder = Path(tempfile.mkdtemp(prefix="rlvr-stdin-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        path = folder / NAME
        with open(path, "wb") as file:
            if binary := getattr(sys.stdin, "buffer", None):
                shutil.copyfileobj(binary, file)
            else:
                file.write(sys.stdin.read().encode())
    except OSError as error:
        raise UserError(
            f"what is piped in cannot be kept for the while: {error.strerror}",
            "name a folder that has room: `export TMPDIR=FOLDER`",
        ) from error
    return path


def holds_path(path: str) -> None:
    """Remembers that stdin held the path of an input."""
    global _path
    _path = sys.stdin, path


def named(arguments: list[str]) -> list[str]:
    """A command's arguments with the path that its stdin held, so that they work without a pipe."""
    if _path is None or _path[0] is not sys.stdin:
        return arguments
    is_said = str(DASH) in arguments
    return [_path[1] if one == str(DASH) else one for one in arguments] + [_path[1]] * (not is_said)


def is_spooled(path: Path) -> bool:
    return _spooled is not None and path.parent == _spooled[1].parent


def shown(path: Path) -> Path:
    """What the user calls a file: `-` for the data of stdin."""
    return DASH if is_spooled(path) else path


def split(text: str) -> list[str]:
    """The lines of a text that are not blank; one line if it is a path that holds line ends."""
    path = text.removesuffix("\n")
    if "\n" in path and "\0" not in path and os.path.exists(path):
        return [path]
    return [line for line in text.split("\n") if line.strip()]


def lines() -> list[str] | None:
    """The lines of stdin, if they may be paths; None if they are the rows of a file."""
    path = spool()
    if path.stat().st_size > _LONGEST_PATH:
        return None
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError:
        return None
    kept = split(text)
    if kept and (kept[0].lstrip()[:1] in "{[" or len(kept) > 1):
        return kept if all(map(os.path.exists, kept)) else None
    return kept

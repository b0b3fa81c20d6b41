"""The standard streams: printed text is safe to show, and failed writes are reported.

Tests run commands in their own process, with the streams that they find: only `main` settles them.
"""

import codecs
import contextlib
import io
import os
import re
import sys
from collections.abc import Callable
from typing import Any

from rlvr_cli.errors import OutputError, ReaderGone
from rlvr_cli.terminal.escape import shown

_COLOUR = re.compile(r"(\x1b\[(?!0*8[;m])[0-9;]{,30}m)")  # all but the hidden one
_EXACT = "rlvr.exact"
_SIZE = re.compile("[1-9][0-9]{1,3}")  # of a terminal


def settle() -> None:
    """Puts safe streams in place of stdout and stderr, for the rest of the process.

    Descriptors that the caller closed are taken, so that no file that is opened gets their number
    and with it what libraries print.
    """
    for descriptor, flags in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDWR)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, flags)  # the lowest that is free, which is this one
    for name in ("COLUMNS", "LINES"):  # rich and typer take any number, and fill lines of 10**9
        if not _SIZE.fullmatch(os.environ.get(name, "80")):
            del os.environ[name]
    codecs.register_error(_EXACT, _exact)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = Results(sys.stdout.buffer, encoding=sys.stdout.encoding, errors=_EXACT)
    elif sys.stdout is None:
        sys.stdout = Results(os.fdopen(1, "wb", closefd=False), encoding="utf-8", errors=_EXACT)
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = Messages(sys.stderr)


def _exact(error: UnicodeError) -> tuple[str | bytes, int]:
    """The bytes that a path came from; of what the encoding lacks, the escape that Python has."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    bad = error.object[error.start : error.end]
    data = b"".join(
        bytes([ord(char) - 0xDC00])
        if 0xDC80 <= ord(char) < 0xDD00
        else char.encode("ascii", "backslashreplace")
        for char in bad
    )
    return data, error.end


class Results(io.TextIOWrapper):
    """stdout: a write that fails is a UserError; if nobody reads it, the command ends.

    It is reported once: later output is lost too.
    """

    _failed = False

    def write(self, text: str) -> int:
        return len(text) if self._failed else self._tried(super().write, text)

    def flush(self) -> None:
        if not self._failed:
            self._tried(super().flush)

    def _tried(self, act: Callable[..., Any], *given: str) -> Any:
        try:
            return act(*given)
        except OSError as error:
            self._failed = True
            raise _failure(error) from error


def _failure(error: OSError) -> Exception:
    if isinstance(error, BrokenPipeError):
        return ReaderGone()
    return OutputError(
        f"cannot write to stdout: {error.strerror}", "free space where it goes, or do not close it"
    )


class Messages(io.TextIOWrapper):
    """stderr: control characters in messages are made visible; colours stay.

    rlvr's own messages pass through a console that does the same, and draws on `unguarded`. A
    message that cannot be written is lost, and the command continues: its exit code is its result.
    """

    def __init__(self, stream: io.TextIOWrapper) -> None:
        how: dict[str, Any] = {"encoding": stream.encoding, "errors": "backslashreplace"}
        super().__init__(stream.buffer, line_buffering=True, **how)
        self.unguarded = _Lossy(stream.buffer, line_buffering=True, **how)

    def write(self, text: str) -> int:
        parts = _COLOUR.split(text)
        self.unguarded.write("".join(p if i % 2 else shown(p) for i, p in enumerate(parts)))
        return len(text)

    def flush(self) -> None:
        self.unguarded.flush()


class _Lossy(io.TextIOWrapper):
    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()

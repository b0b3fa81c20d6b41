"""What a program prints and reads while tests call it: both are the tests' own.

It runs inside the sandbox and imports only the standard library.
"""

import io
from collections.abc import Callable
from typing import Any

_MOST = 1 << 20  # bytes to buffer between two messages
CUT = "\ufffd[the rest of the output is cut]"


class Printed(io.RawIOBase):
    """Bytes that a program has written since they were last taken."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._is_cut = False

    def writable(self) -> bool:
        return True

    def write(self, data: "bytes | memoryview") -> int:  # type: ignore[override]
        size = len(data)
        room = _MOST - len(self._data)
        self._data += data[:room]
        self._is_cut |= size > room
        return size

    def take(self) -> str:
        """The text so far, which is then gone."""
        text = self._data.decode(errors="replace") + (CUT if self._is_cut else "")
        self._data, self._is_cut = bytearray(), False
        return text


def writer(raw: Printed) -> io.TextIOWrapper:
    """A `sys.stdout`, with a `buffer`."""
    how = {"encoding": "utf-8", "errors": "surrogateescape", "newline": ""}
    return io.TextIOWrapper(raw, write_through=True, **how)  # type: ignore[arg-type]


class LineInput(io.RawIOBase):
    """A stdin whose lines are requested one at a time."""

    def __init__(self, line: Callable[[], str]) -> None:
        self._line = line
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        if not self._rest:
            self._rest = self._line().encode(errors="surrogateescape")
        piece = self._rest[: len(buffer)]
        buffer[: len(piece)] = piece
        self._rest = self._rest[len(piece) :]
        return len(piece)


def reader(line: Callable[[], str]) -> io.TextIOWrapper:
    """A `sys.stdin`, with a `buffer`, that asks for no line before it is read."""
    raw: Any = io.BufferedReader(LineInput(line), 1)
    return io.TextIOWrapper(raw, encoding="utf-8", errors="surrogateescape")

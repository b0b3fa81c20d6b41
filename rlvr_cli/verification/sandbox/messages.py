"""Messages between the process that holds the tests and the one that knows the program.

A message is JSON with its length in front. This module runs inside the sandbox and imports the
standard library alone.
"""

import json
import os
import select
import struct
import time
from typing import Any

_LENGTH = struct.Struct("!I")
_MOST = 16 << 20  # bytes of a message


class Gone(BaseException):
    """The program ended, or answered what is no answer."""


def send(descriptor: int, message: Any) -> None:
    data = json.dumps(message).encode()
    rest = memoryview(_LENGTH.pack(len(data)) + data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def get(descriptor: int, deadline: float | None = None) -> Any:
    """The next message; None where the other process closed its pipe.

    `TimeoutError` if it is not complete at the deadline, on the monotonic clock.
    """
    header = _read(descriptor, _LENGTH.size, deadline)
    if header is None:
        return None
    (size,) = _LENGTH.unpack(header)
    if size > _MOST:
        raise Gone("it answered more than 16 MiB")
    data = _read(descriptor, size, deadline)
    return None if data is None else json.loads(data)


def whole(descriptor: int) -> Any:
    """The one message that a file holds."""
    with open(descriptor, "rb") as file:
        return json.loads(file.read())


def _read(descriptor: int, size: int, deadline: float | None) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        if deadline is not None:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([descriptor], [], [], left)[0]:
                raise TimeoutError
        piece = os.read(descriptor, size - len(data))
        if not piece:
            return None
        data += piece
    return bytes(data)

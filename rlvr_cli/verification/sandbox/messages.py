"""Messages between the process that holds the tests and the one that knows the program.

A message is JSON with its length in front. This module runs inside the sandbox and imports only the
standard library.
"""

import json
import os
import select
import struct
import time
from typing import Any

LENGTH = struct.Struct("!I")
_MOST = 16 << 20  # bytes of a message


class Gone(BaseException):
    """The program ended, or sent an invalid answer."""


def packed(message: Any) -> bytes:
    data = json.dumps(message).encode()
    return LENGTH.pack(len(data)) + data


def send(descriptor: int, message: Any) -> None:
    rest = memoryview(packed(message))
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def get(descriptor: int, deadline: float | None = None, most: int = _MOST) -> Any:
    """The next message; None where the other process closed its pipe.

    `TimeoutError` if it is not complete at the deadline, on the monotonic clock; `Gone` if it has
    more than `most` bytes.
    """
    header = _read(descriptor, LENGTH.size, deadline)
    if header is None:
        return None
    (size,) = LENGTH.unpack(header)
    if size > most:
        raise Gone("it answered more than 16 MiB")
    data = _read(descriptor, size, deadline)
    return None if data is None else json.loads(data)


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

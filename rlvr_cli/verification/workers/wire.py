"""Messages between processes: JSON with its length in front, so that no byte of it is executed."""

import json
import socket
import struct
from typing import Any

_LENGTH = struct.Struct("!I")
_CHUNK = 1 << 20


def pack(message: Any) -> bytes:
    data = json.dumps(message).encode()  # ASCII: lone surrogates and NUL are escaped
    return _LENGTH.pack(len(data)) + data


class Inbox:
    """Collects bytes as they come and splits off the complete messages."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """The messages that these bytes complete."""
        self._data += data
        messages: list[Any] = []
        while len(self._data) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._data)[0]
            if len(self._data) < end:
                break
            messages.append(json.loads(bytes(self._data[_LENGTH.size : end])))
            del self._data[:end]
        return messages


def receive(channel: socket.socket) -> Any:
    """The next message; None where the other side is gone."""
    header = _exactly(channel, _LENGTH.size)
    if header is None:
        return None
    data = _exactly(channel, _LENGTH.unpack(header)[0])
    return None if data is None else json.loads(data)


def _exactly(channel: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        try:
            piece = channel.recv(min(size - len(data), _CHUNK))
        except ConnectionError:
            return None
        if not piece:
            return None
        data += piece
    return bytes(data)

"""Bytes that are needed again later: they wait in a temporary file, not in memory."""

import base64
import binascii
import functools
import hashlib
import os
import tempfile
from dataclasses import dataclass, field, replace
from typing import IO

from rlvr_cli.errors import UserError


@dataclass(frozen=True)
class Spooled:
    """Bytes in a temporary file, which disappears with this process.

    As text it is what bytes are, or with a `head`, that of a URL with base64, the text it was.
    """

    offset: int
    size: int
    file: IO[bytes] = field(repr=False)
    head: str | None = None

    def read(self) -> bytes:
        return os.pread(self.file.fileno(), self.size, self.offset)

    def __str__(self) -> str:
        if self.head is None:
            return str(self.read())
        return self.head + base64.b64encode(self.read()).decode()


def keep(data: bytes) -> Spooled:
    """Writes bytes to the end of this process' file, once if they come again; no copy in memory."""
    digest = hashlib.sha256(data).digest()
    try:
        file, offsets = _file()
        if digest not in offsets:
            offset = file.seek(0, os.SEEK_END)
            file.write(data)
            file.flush()
            offsets[digest] = offset
    except OSError as error:
        raise UserError(
            f"there is no room for the images that are read: {error.strerror}",
            "name a folder that has room: `export TMPDIR=FOLDER`",
        ) from error
    return Spooled(offsets[digest], len(data), file)


def keep_base64(head: str, encoded: str) -> Spooled | None:
    """The bytes of base64 after a head; None if they would not give the same text."""
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
    if base64.b64encode(data).decode() != encoded:
        return None
    return replace(keep(data), head=head)


@functools.cache
def _file() -> tuple[IO[bytes], dict[bytes, int]]:
    """This process' file, and where in it bytes of each sha256 begin."""
    return tempfile.TemporaryFile(prefix="rlvr-images-"), {}

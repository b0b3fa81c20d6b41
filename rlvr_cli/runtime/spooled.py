"""Bytes that are needed again later: they wait in a temporary file instead of memory."""

import functools
import os
import tempfile
from dataclasses import dataclass, field
from typing import IO

from rlvr_cli.errors import UserError


@dataclass(frozen=True)
class Spooled:
    """Bytes in a temporary file, which goes with this process. As text it is what bytes are."""

    offset: int
    size: int
    file: IO[bytes] = field(repr=False)

    def read(self) -> bytes:
        return os.pread(self.file.fileno(), self.size, self.offset)

    def __str__(self) -> str:
        return str(self.read())


def keep(data: bytes) -> Spooled:
    """Writes bytes to the end of this process' file, without a copy in memory."""
    try:
        file = _file()
        offset = file.seek(0, os.SEEK_END)
        file.write(data)
        file.flush()
    except OSError as error:
        raise UserError(
            f"there is no room for the images that are read: {error.strerror}",
            "name a folder that has room: `export TMPDIR=FOLDER`",
        ) from error
    return Spooled(offset, len(data), file)


@functools.cache
def _file() -> IO[bytes]:
    return tempfile.TemporaryFile(prefix="rlvr-images-")

"""The images of a prompt: a line each, files to open, and drawings where the terminal can."""

import contextlib
import fcntl
import os
import re
import struct
import termios
import tty
from collections.abc import Iterator, Sequence
from pathlib import Path

from rlvr_cli.storage import atomic, user_cache
from rlvr_cli.storage.images import Image
from rlvr_cli.terminal import plural
from rlvr_cli.terminal.escape import shown
from rlvr_cli.viewer import graphics
from rlvr_cli.viewer.graphics import Protocol

_SUFFIXES = {"PNG": ".png", "JPEG": ".jpg", "WEBP": ".webp"}


def path(image: Image) -> Path:
    """Where the image is written: a file in the user's cache, named by the image's digest."""
    name = re.sub(r"\W", "", image.sha256)[:16]
    return user_cache.folder() / "images" / f"{name}{_SUFFIXES.get(image.format, '')}"


def line(image: Image) -> str:
    """Digest, format and size of an image, and its file, or what writes it."""
    where = path(image)
    file = str(where) if where.exists() else "`i` shows it, or writes it to a file"
    size = f"{image.format} {image.width} × {image.height}, {plural.size(image.size)}"
    return shown(f"{image.sha256[:12]}  {size}: {file}")


def write(images: Sequence[Image]) -> list[Path]:
    """Writes each image to its file."""
    for image in images:
        atomic.make_folder(path(image).parent)
        atomic.write_atomic(path(image), image.read())
    return [path(image) for image in images]


class Terminal:
    """A terminal that draws images while no app has its screen; its abilities are queried once."""

    def __init__(self) -> None:
        self._protocol: Protocol | None = None

    def draw(self, images: Sequence[Image], reads: int, writes: int) -> bool:
        """Draws the images and waits for a key; False where the terminal or Pillow cannot.

        `reads` and `writes` are descriptors of the terminal.
        """
        with _raw(reads):
            if self._protocol is None:
                self._protocol = graphics.ask(reads, writes)
            if not self._protocol:
                return False
            try:
                pieces = list(_page(images, self._protocol, writes))
            except ImportError:
                return False
            for piece in pieces:
                _write_all(writes, piece)
            os.read(reads, 64)
        _write_all(writes, b"\x1b[2J\x1b[H")
        return True


def _page(images: Sequence[Image], protocol: Protocol, terminal: int) -> Iterator[bytes]:
    """A cleared screen with each image under its line."""
    rows, columns, width, height = struct.unpack(
        "HHHH", fcntl.ioctl(terminal, termios.TIOCGWINSZ, bytes(8))
    )
    cell = graphics.cell(columns, rows, width, height)
    each = max(2, (rows - 2) // len(images) - 2)
    yield b"\x1b[2J\x1b[H"
    for image in images:
        yield f"{line(image)}\r\n".encode()
        yield from graphics.drawn(image, protocol, *graphics.box(image, columns - 1, each, cell))
        yield b"\r\n"
    yield b"any key: back"


@contextlib.contextmanager
def _raw(descriptor: int) -> Iterator[None]:
    """A terminal that hands over each key at once, Ctrl-C too, without showing it."""
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]

"""Images in a terminal that can draw them: by kitty's graphics protocol, or as sixels.

The terminal itself says whether it can: it is queried, with a short wait for the reply.
Sources: sw.kovidgoyal.net/kitty/graphics-protocol, and vt100.net's VT330/340 manual of sixels.
"""

import base64
import io
import os
import re
import select
import time
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from rlvr_cli.storage.images import Image

Protocol = Literal["kitty", "sixel", ""]

# Whether kitty's protocol is known, then the device's attributes, which any terminal says.
_QUERY = b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[c"
_ATTRIBUTES = re.compile(rb"\x1b\[\?([\d;]*)c")
_WAIT_S = 1.0
_CHUNK = 4096  # bytes of base64 in a command of kitty
_COLOURS = 64
_CELL = (10, 20)  # pixels of a cell where the terminal does not say


def ask(reads: int, writes: int) -> Protocol:
    """What the terminal of these descriptors draws; it must not wait for lines, nor echo."""
    os.write(writes, _QUERY)
    said, end = b"", time.monotonic() + _WAIT_S
    while not (attributes := _ATTRIBUTES.search(said)):
        left = end - time.monotonic()
        if left <= 0 or not select.select([reads], [], [], left)[0]:
            return ""
        said += os.read(reads, 1024)
    if b"_Gi=31;OK" in said:
        return "kitty"
    return "sixel" if b"4" in attributes[1].split(b";")[1:] else ""


def box(image: Image, columns: int, rows: int, cell: tuple[int, int]) -> tuple[int, int]:
    """Width and height in pixels of an image within so many cells; it is not enlarged."""
    share = min(1.0, columns * cell[0] / image.width, rows * cell[1] / image.height)
    return max(1, int(image.width * share)), max(1, int(image.height * share))


def cell(columns: int, rows: int, width: int, height: int) -> tuple[int, int]:
    """Width and height in pixels of a cell, from those of the terminal; 0 is unknown."""
    known = columns and rows and width >= columns and height >= rows
    return (width // columns, height // rows) if known else _CELL


def drawn(image: Image, protocol: Protocol, width: int, height: int) -> Iterator[bytes]:
    """What draws the image in so many pixels. An ImportError where Pillow is not installed."""
    import PIL.Image

    with PIL.Image.open(io.BytesIO(image.read())) as opened:
        small = opened.convert("RGB").resize((width, height))
    if protocol == "sixel":
        indexed = small.quantize(_COLOURS, dither=PIL.Image.Dither.NONE)
        palette = np.array(indexed.getpalette(), dtype=np.int64).reshape(-1, 3)
        yield sixels(np.asarray(indexed), palette)
        return
    sink = io.BytesIO()
    small.save(sink, "PNG")
    yield from _kitty(sink.getvalue())


def _kitty(png: bytes) -> Iterator[bytes]:
    data = base64.b64encode(png)
    for at in range(0, len(data), _CHUNK):
        more = int(at + _CHUNK < len(data))
        keys = f"a=T,f=100,q=2,m={more}" if not at else f"q=2,m={more}"
        yield b"\x1b_G" + keys.encode() + b";" + data[at : at + _CHUNK] + b"\x1b\\"


def sixels(index_HW: np.ndarray, palette: np.ndarray) -> bytes:
    """An image of indices into a palette of 8-bit RGB as sixels: bands of six lines."""
    height, width = index_HW.shape
    pieces = [f'\x1bP0;1q"1;1;{width};{height}']
    pieces += (
        "#{};2;{};{};{}".format(colour, *np.round(palette[colour] * 100 / 255).astype(int))
        for colour in np.unique(index_HW).tolist()
    )
    for top in range(0, height, 6):
        band = index_HW[top : top + 6]
        bits = 1 << np.arange(len(band))
        layers = (
            f"#{colour}{_runs((band == colour).T @ bits)}" for colour in np.unique(band).tolist()
        )
        pieces.append("$".join(layers) + "-")
    return ("".join(pieces) + "\x1b\\").encode()


def _runs(bits_W: Sequence[int] | np.ndarray) -> str:
    """The characters of a line of six, runs of one character as their number."""
    value_W = np.asarray(bits_W)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(value_W)) + 1])
    lengths = np.diff(np.append(starts, len(value_W)))
    return "".join(
        f"!{length}{chr(63 + value)}" if length > 3 else chr(63 + value) * length
        for value, length in zip(value_W[starts].tolist(), lengths.tolist(), strict=True)
    )

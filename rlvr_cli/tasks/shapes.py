"""Pictures of coloured shapes whose corners are counted; many expressions are right for each.

A picture is a grid of cells, some of which hold a triangle, square, pentagon, hexagon or circle.
It is drawn in integers, without antialiasing, and written as a PNG that is not compressed: its
bytes depend on no library.
"""

import functools
import random
import struct
import zlib
from dataclasses import dataclass
from typing import Any, Literal

Split = Literal["train", "heldout"]

SIDE = 64  # pixels of a picture, across and down
CELLS = 4  # cells of a row, and rows
CORNERS = {"triangle": 3, "square": 4, "pentagon": 5, "hexagon": 6, "circle": 0}
COLOURS = {"red": (220, 40, 40), "green": (30, 150, 60), "blue": (40, 80, 220)}
QUESTION = "Write an expression that equals the number of corners of the {colour} shapes."
_COUNTS = {"train": 1000, "heldout": 100}
_BACKGROUND = (255, 255, 255)
_RADII = (5, 6)  # pixels from the centre of a shape to a corner
_JITTER = 1  # pixels that a shape may be off the centre of its cell
# Corners of a radius of 1000, in order, so that the inside is on one side of every edge.
_POLYGONS = {
    "triangle": ((0, -1000), (866, 500), (-866, 500)),
    "square": ((-849, -849), (849, -849), (849, 849), (-849, 849)),
    "pentagon": ((0, -1000), (951, -309), (588, 809), (-588, 809), (-951, -309)),
    "hexagon": ((1000, 0), (500, 866), (-500, 866), (-1000, 0), (-500, -866), (500, -866)),
}


@dataclass(frozen=True)
class Shape:
    """A shape of a picture; `x` and `y` are the pixel of its centre, `radius` is in pixels."""

    form: str
    colour: str
    x: int
    y: int
    radius: int


@dataclass(frozen=True)
class Picture:
    """A picture, its shapes from left to right in each row of cells, and the colour in question."""

    shapes: tuple[Shape, ...]
    colour: str

    @property
    def counted(self) -> list[int]:
        """The corners of each shape of the colour, in order; circles have none and are left out."""
        own = [CORNERS[shape.form] for shape in self.shapes if shape.colour == self.colour]
        return [corners for corners in own if corners]


def build(
    *, split: Split = "train", count: int = 0, largest: int = 6, seed: int = 0
) -> list[dict[str, Any]]:
    """`count` different pictures of 3 to `largest` shapes, each with a question on one colour.

    A count of 0 is 1000 to train on and 100 held out. The answer is the number of corners; an
    expression that equals it is right. The two splits share no picture: whether one is held out is
    decided by a hash of its shapes.
    """
    if not (3 <= largest <= CELLS**2 and 0 <= count <= 100_000):
        raise ValueError(f"largest must be 3 to {CELLS**2}, and count 0 to 100000")
    count = count or _COUNTS[split]
    draw = random.Random(f"shapes {seed} {largest}")
    pictures: dict[Picture, None] = {}
    while len(pictures) < count:
        picture = drawn(draw, largest)
        if is_held_out(picture) == (split == "heldout"):
            pictures[picture] = None
    return [_prompt(picture, number, split) for number, picture in enumerate(pictures)]


def drawn(draw: random.Random, largest: int) -> Picture:
    """A random picture in two colours; two or more shapes of its `colour` have corners."""
    while True:
        cells = sorted(draw.sample(range(CELLS**2), draw.randint(3, largest)))
        colours = draw.sample(list(COLOURS), 2)
        picture = Picture(tuple(_shape(draw, cell, colours) for cell in cells), colours[0])
        if len(picture.counted) > 1:
            return picture


def _shape(draw: random.Random, cell: int, colours: list[str]) -> Shape:
    row, column = divmod(cell, CELLS)
    x, y = ((2 * place + 1) * SIDE // (2 * CELLS) for place in (column, row))
    x, y = (place + draw.randint(-_JITTER, _JITTER) for place in (x, y))
    return Shape(draw.choice(list(CORNERS)), draw.choice(colours), x, y, draw.choice(_RADII))


def is_held_out(picture: Picture) -> bool:
    """Whether a picture belongs to the held-out split, whatever its question; one in five does."""
    return zlib.crc32(repr(picture.shapes).encode()) % 5 == 0


def _prompt(picture: Picture, number: int, split: Split) -> dict[str, Any]:
    content = [
        {"type": "image", "image": png(picture.shapes)},
        {"type": "text", "text": QUESTION.format(colour=picture.colour)},
    ]
    return {
        "prompt_id": f"shapes-{split}-{number:05d}",
        "prompt": [{"role": "user", "content": content}],
        "answer": str(sum(picture.counted)),
        "verifier": "expression",
        "source": f"shapes-{split}",
        "extra": None,
    }


def png(shapes: tuple[Shape, ...]) -> bytes:
    """A picture of SIDE x SIDE pixels in RGB as a PNG, in stored blocks of deflate."""
    rows = [bytearray(_BACKGROUND * SIDE) for _ in range(SIDE)]
    for shape in shapes:
        for x, y in _pixels(shape.form, shape.radius):
            start = 3 * (shape.x + x)
            rows[shape.y + y][start : start + 3] = bytes(COLOURS[shape.colour])
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)  # 8 bits a channel, RGB
    chunks = ((b"IHDR", header), (b"IDAT", _stored(b"".join(b"\0" + row for row in rows))))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*chunk) for chunk in (*chunks, (b"IEND", b"")))


def _stored(data: bytes) -> bytes:
    """Data as a zlib stream of one stored block; such a block holds less than 64 KiB."""
    block = struct.pack("<BHH", 1, len(data), len(data) ^ 0xFFFF)
    return b"\x78\x01" + block + data + struct.pack(">I", zlib.adler32(data))


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


@functools.cache
def _pixels(form: str, radius: int) -> tuple[tuple[int, int], ...]:
    """The pixels that a shape covers, from its centre, which is in the middle of a pixel."""
    box = range(-radius, radius + 1)
    return tuple((x, y) for y in box for x in box if _covers(form, radius, x, y))


def _covers(form: str, radius: int, x: int, y: int) -> bool:
    if form == "circle":
        return x * x + y * y <= radius * radius + radius  # that of radius + 1/2
    polygon = [(radius * right, radius * down) for right, down in _POLYGONS[form]]
    edges = zip(polygon, polygon[1:] + polygon[:1], strict=True)
    return all(
        (x1 - x0) * (1000 * y - y0) - (y1 - y0) * (1000 * x - x0) >= 0
        for (x0, y0), (x1, y1) in edges
    )

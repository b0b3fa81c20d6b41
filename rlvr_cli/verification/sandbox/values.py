"""Values of Python as JSON and back, for two processes of which one must not trust the other.

It runs inside the sandbox and imports the standard library alone.
"""

from collections.abc import Iterator
from typing import Any

_DEPTH = 60
_ITEMS = 50_000
_TYPES = {
    kind.__name__: kind
    for kind in (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, range)
}


class Opaque:
    """A value that is no plain data: it equals nothing."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{self.what}>"


def encode(value: Any, depth: int = 0) -> Any:
    """Plain data, with a tag where JSON has no such type; anything else is opaque."""
    if depth > _DEPTH:
        return ["o", "too deep"]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return ["i", hex(value)]
    if isinstance(value, float):
        return ["f", float.hex(value)]
    if isinstance(value, complex):
        return ["c", float.hex(value.real), float.hex(value.imag)]
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return ["b", value.hex()]
    if isinstance(value, dict):
        return ["d", [[encode(k, depth + 1), encode(v, depth + 1)] for k, v in value.items()]]
    for tag, kind in (("l", list), ("t", tuple), ("s", set), ("z", frozenset)):
        if isinstance(value, kind):
            return [tag, [encode(item, depth + 1) for item in value]]
    if isinstance(value, range):
        return ["r", hex(value.start), hex(value.stop), hex(value.step)]
    for name, plain in _TYPES.items():
        if value is plain:
            return ["y", name]
    if isinstance(value, Iterator):
        items = [encode(item, depth + 1) for _, item in zip(range(_ITEMS), value, strict=False)]
        return ["n", items]
    return ["o", type(value).__name__[:60]]


def decode(data: Any) -> Any:
    """The value; an error unless `encode` could have produced the data."""
    if data is None or isinstance(data, bool | str):
        return data
    tag, *rest = data
    if tag in _MAKERS:
        return _MAKERS[tag]([decode(item) for item in rest[0]])
    if tag == "d":
        return {decode(key): decode(value) for key, value in rest[0]}
    if tag == "i":
        return int(rest[0], 16)
    if tag == "f":
        return float.fromhex(rest[0])
    if tag == "c":
        return complex(float.fromhex(rest[0]), float.fromhex(rest[1]))
    if tag == "b":
        return bytes.fromhex(rest[0])
    if tag == "r":
        return range(*(int(bound, 16) for bound in rest))
    if tag == "y":
        return _TYPES[rest[0]]
    if tag == "o":
        return Opaque(str(rest[0]))
    raise ValueError(f"unknown tag {tag!r}")


_MAKERS: dict[Any, Any] = {
    "l": list, "t": tuple, "s": set, "z": frozenset, "n": iter,
}  # fmt: skip

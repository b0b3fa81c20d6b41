"""Containers that exist in two processes at once, so that each sees what the other does to them.

It runs inside the sandbox and imports only the standard library.
"""

import operator
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable
from typing import Any

from rlvr_cli.verification.sandbox import records

MUTABLE: dict[str, type] = {
    "list": list, "dict": dict, "set": set, "deque": deque, "bytearray": bytearray,
    "defaultdict": defaultdict, "OrderedDict": OrderedDict, "Counter": Counter,
}  # fmt: skip
TAGS = {kind: tag for tag, kind in MUTABLE.items()}
_BASES = (*MUTABLE.values(), tuple, frozenset, int, float, complex, str, bytes)


def is_container(value: Any) -> bool:
    """Whether it can change and is plain data, so that it exists on both sides."""
    return type(value) in TAGS


def is_value(value: Any) -> bool:
    """Whether it crosses by value."""
    return is_container(value) or records.of(value) is not None


def plain_base(kind: type) -> type | None:
    """The built-in type of data that a class derives from."""
    for base in kind.__mro__:
        if base in _BASES:
            return base
    return None


def contents(value: Any, base: type) -> list[Any]:
    """The items of a container, without any method that its class defines."""
    if issubclass(base, dict):
        mapping = OrderedDict if base is OrderedDict else dict  # which knows its own order
        return [item for pair in mapping.items(value) for item in pair]
    iterating: Any = base
    return list(iterating.__iter__(value))


def replace(value: Any, base: Any, items: list[Any]) -> None:
    """Gives a container other contents."""
    if issubclass(base, dict):
        mapping = OrderedDict if base is OrderedDict else dict
        mapping.clear(value)
        for key, item in zip(items[::2], items[1::2], strict=True):
            mapping.__setitem__(value, key, item)
    elif base in (list, bytearray):
        base.__setitem__(value, slice(None), items)
    else:
        base.clear(value)
        grow = set.update if base is set else deque.extend
        grow(value, items)


class Shared:
    """The containers that exist on both sides, with their contents at the last message."""

    def __init__(self, first: int) -> None:
        self._next = first  # the sides number theirs by even and odd
        self._known: dict[int, tuple[Any, type, list[Any]]] = {}
        self._keys: dict[int, int] = {}

    def key_of(self, value: Any) -> int | None:
        return self._keys.get(id(value))

    def add(self, value: Any, key: int | None = None) -> int:
        if key is None:
            key, self._next = self._next, self._next + 2
        self._known[key] = (value, plain_base(type(value)) or list, [])
        self._keys[id(value)] = key
        return key

    def get(self, key: int) -> Any:
        return self._known[key][0]

    def __contains__(self, key: int) -> bool:
        return key in self._known

    def keep(self, key: int) -> list[Any]:
        """Remembers what a container holds now, as that is what the other side has."""
        value, base, _ = self._known[key]
        held = contents(value, base)
        self._known[key] = (value, base, held)
        return held

    def drop(self, keys: Iterable[int]) -> None:
        for key in keys:
            if key in self._known:
                del self._keys[id(self._known.pop(key)[0])]

    def unused(self) -> list[int]:
        """Those that nothing here refers to any more."""
        counts = _references(self._known.values())
        return [key for key, n in zip(self._known, counts, strict=True) if n <= _REFERENCES]

    def drop_unused(self, keys: list[int]) -> list[int]:
        """Forgets those of `keys`, and then those that only they refer to; returns all of them."""
        gone, todo = [], keys
        while todo:
            parts: dict[int, None] = {}
            for key in todo:
                value, _, held = self._known.pop(key)
                del self._keys[id(value)]
                parts.update(
                    (self._keys[id(item)], None) for item in held if id(item) in self._keys
                )
                del value, held
            gone += todo
            left = [key for key in parts if key in self._known]
            counts = _references([self._known[key] for key in left])
            todo = [key for key, n in zip(left, counts, strict=True) if n <= _REFERENCES]
        return gone

    def changed(self) -> list[int]:
        """Those that hold something else than when a message last went."""
        keys = []
        for key, (value, base, held) in self._known.items():
            now = value if base is list else contents(value, base)
            if len(now) != len(held) or not all(map(operator.is_, now, held)):
                keys.append(key)
        return keys


def _references(entries: Iterable[tuple[Any, type, list[Any]]]) -> list[int]:
    return [sys.getrefcount(value) for value, _, _ in entries]


_REFERENCES = _references([([], list, [])])[0]  # to what nothing but its entry refers to

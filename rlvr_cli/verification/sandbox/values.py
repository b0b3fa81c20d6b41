"""Values of Python as JSON and back, for two processes of which one must not trust the other.

A message is a table of nodes: an item of a node is a scalar, or `[n]` for the node number n. So
what is contained twice stays one object, what contains itself does too, and no depth is too deep.
Scalars, and data that cannot change, cross by value with their exact type. Containers that can
change exist on both sides under one key; each message brings the contents of those that its sender
changed (`Shared`). Anything else stays where it is, and what crosses is its name: `objects.py`.

It runs inside the sandbox and imports the standard library alone.
"""

import builtins
import functools
import operator
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

from rlvr_cli.verification.sandbox import records

_SMALL = 1 << 62  # whole numbers from here on are written in hexadecimal, as JSON's digits are slow
_MUTABLE: dict[str, type] = {
    "list": list, "dict": dict, "set": set, "deque": deque, "bytearray": bytearray,
    "defaultdict": defaultdict, "OrderedDict": OrderedDict, "Counter": Counter,
}  # fmt: skip
_TAGS = {kind: tag for tag, kind in _MUTABLE.items()}
_CONSTANTS: dict[str, Any] = {"...": ..., "NotImplemented": NotImplemented}
_TYPES: dict[str, type] = {
    name: value
    for name, value in vars(builtins).items()
    if isinstance(value, type) and not issubclass(value, BaseException)
}
_BASES = (*_MUTABLE.values(), tuple, frozenset, int, float, complex, str, bytes)


def is_container(value: Any) -> bool:
    """Whether it can change and is plain data, so that it exists on both sides."""
    return type(value) in _TAGS


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
    iterate: Callable[[Any], Iterable[Any]] = base.__iter__  # type: ignore[attr-defined]
    return list(iterate(value))


def replace(value: Any, base: type, items: list[Any]) -> None:
    """Gives a container other contents."""
    if issubclass(base, dict):
        mapping = OrderedDict if base is OrderedDict else dict
        mapping.clear(value)
        for key, item in zip(items[::2], items[1::2], strict=True):
            mapping.__setitem__(value, key, item)
    elif base in (list, bytearray):
        base.__setitem__(value, slice(None), items)  # type: ignore[attr-defined]
    else:
        base.clear(value)  # type: ignore[attr-defined]
        grow = set.update if base is set else deque.extend
        grow(value, items)


class Shared:
    """The containers that exist on both sides, with what they held when a message last went."""

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

    def __contains__(self, key: int | None) -> bool:
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
        """Forgets those of `keys`, and then what only they held; returns all of them."""
        gone, todo = [], keys
        while todo:
            parts: dict[int, None] = {}
            for key in todo:
                value, _, held = self._known.pop(key)
                del self._keys[id(value)]
                parts.update((self._keys[id(item)], None) for item in held if id(item) in self._keys)
                del value, held
            gone += todo
            left = [key for key in parts if key in self._known]
            counts = _references([self._known[key] for key in left])
            todo = [key for key, n in zip(left, counts, strict=True) if n <= _REFERENCES]
        return gone

    def changed(self) -> list[int]:
        """Those that hold something else than when a message last went."""
        found = []
        for key, (value, base, held) in self._known.items():
            now = value if base is list else contents(value, base)
            if len(now) != len(held) or not all(map(operator.is_, now, held)):
                found.append(key)
        return found


def _references(entries: Iterable[tuple[Any, type, list[Any]]]) -> list[int]:
    return [sys.getrefcount(value) for value, _, _ in entries]


_REFERENCES = _references([([], list, [])])[0]  # to what nothing but its entry refers to


class Encoder:
    """One message: the nodes that a value takes."""

    def __init__(
        self,
        shared: Shared,
        name: Callable[["Encoder", Any, bool], list[Any]],
        *,
        is_result: bool = False,
    ) -> None:
        self._shared = shared
        self._name = name  # the node of what is no plain data
        self._is_result = is_result  # so that what nothing else here refers to is given away
        self._places: dict[int, int] = {}
        self._held: list[Any] = []  # as an id is one's own only while it lives
        self._todo: list[tuple[int, Any, bool, bool]] = []
        self._is_given = False  # whether the node that is being written is
        self.nodes: list[Any] = []

    def message(self, root: Any, *, is_settled: bool = True) -> dict[str, Any]:
        """The value, and the contents of all shared containers that have changed.

        Not while another message is being read, whose containers are not filled yet.
        """
        unused = self._shared.unused() if is_settled else []
        for key in self._shared.changed() if is_settled else []:
            self._place(self._shared.get(key), whole=True)
        self._is_given = self._is_result
        item = [self._place(root)]
        self.nodes[item[0]] = ["tuple", self.items(root)]
        while self._todo:
            place, value, whole, is_given = self._todo.pop()
            if self.nodes[place] is None:
                self._is_given = is_given and self._is_only_here(value)
                self.nodes[place] = self._node(value, whole)
        return {"nodes": self.nodes, "root": item, "gone": self._shared.drop_unused(unused)}

    def item(self, value: Any) -> Any:
        """A scalar as it is; else the number of its node, which is written later."""
        kind = type(value)
        if value is None or kind is bool or kind is float:
            return value
        if kind is int and -_SMALL < value < _SMALL:
            return value
        if kind is str and (value.isascii() or not _has_surrogates(value)):
            return value
        return [self._place(value)]

    def items(self, values: Iterable[Any]) -> list[Any]:
        values = list(values)
        kinds = set(map(type, values))
        if kinds == {int} and -_SMALL < min(values) and max(values) < _SMALL:
            return values
        if kinds == {float} or (kinds == {str} and all(map(str.isascii, values))):
            return values
        return [self.item(value) for value in values]

    def _place(self, value: Any, whole: bool = False) -> int:
        place = self._places.get(id(value))
        if place is None:
            place = self._places[id(value)] = len(self.nodes)
            self._held.append(value)
            self.nodes.append(None)
            self._todo.append((place, value, whole, self._is_given))
        return place

    def _is_only_here(self, value: Any) -> bool:
        return sys.getrefcount(value) <= _ONLY_HERE

    def _node(self, value: Any, whole: bool) -> list[Any]:
        kind = type(value)
        if kind in _TAGS:
            return self.container(value, whole, None)
        if kind is tuple:
            return ["tuple", self.items(value)]
        if kind is frozenset:
            return ["frozenset", self.items(value)]
        if kind is int:
            return ["int", hex(value)]
        if kind is str:
            return ["str", value.encode("utf-32-be", "surrogatepass").hex()]
        if kind is type and _TYPES.get(value.__name__) is value:
            return ["type", value.__name__]
        for name, constant in _CONSTANTS.items():
            if value is constant:
                return ["constant", name]
        if record := records.of(value):
            return ["record", record[0], self.items(record[1])]
        return self._name(self, value, whole)

    def container(self, value: Any, whole: bool, own: Any) -> list[Any]:
        """A container: its key, and what it holds unless the other side has that.

        One without a key is the other side's alone from then on.
        """
        key, base = self._shared.key_of(value), plain_base(type(value)) or list
        if key is not None and not whole:
            return ["same", key]
        if key is None and self._is_given and own is None:
            node = [_TAGS[base], None, self.items(contents(value, base)), own]
        else:
            self._is_given = False
            key = self._shared.add(value) if key is None else key
            node = [_TAGS[base], key, self.items(self._shared.keep(key)), own]
        if isinstance(value, defaultdict):
            return [*node, self.item(value.default_factory)]
        return [*node, value.maxlen] if isinstance(value, deque) else node


class _Counting(Encoder):
    """Finds how many references there are to what one container alone refers to."""

    count = 0

    def _is_only_here(self, value: Any) -> bool:
        self.count = sys.getrefcount(value)
        return True


def _references_to_a_part() -> int:
    encoder = _Counting(Shared(0), lambda *_: [], is_result=True)
    encoder.message(("value", [[]]))
    return encoder.count


_ONLY_HERE = _references_to_a_part()


class Decoder:
    """The values of one message; an error unless an `Encoder` could have written it."""

    def __init__(
        self,
        shared: Shared,
        named: Callable[["Decoder", list[Any]], Any],
        is_late: Callable[[list[Any]], Iterable[Any]],
    ) -> None:
        self._shared = shared
        self._named = named  # what a node stands for that is no plain data
        self._parts_of = is_late  # the items that such a node needs first
        self._values: dict[int, Any] = {}
        self._nodes: list[Any] = []

    def message(self, data: dict[str, Any]) -> Any:
        self._nodes, nodes = data["nodes"], data["nodes"]
        fills = []
        for place, node in enumerate(nodes):
            if node[0] in _MUTABLE:
                if node[3] is None and len(node) == 4:
                    self._values[place] = self._container(node)
                else:
                    self._make(place)
                fills.append((self._values[place], node[1], node[2]))
        for place in range(len(nodes)):
            if place not in self._values:
                self._make(place)
        for value, key, items in fills:
            replace(value, plain_base(type(value)) or list, self.values(items))
            if key is not None:
                self._shared.keep(key)
        self._shared.drop(data["gone"])
        return self.value(data["root"])

    def values(self, items: list[Any]) -> list[Any]:
        if not {list, dict} & set(map(type, items)):
            return items
        return [self.value(item) for item in items]

    def value(self, item: Any) -> Any:
        """What an item stands for; its node must have been read."""
        if isinstance(item, list):
            return self._values[item[0]]
        if isinstance(item, dict):
            raise ValueError("no item")
        return item

    def _make(self, place: int) -> None:
        """Reads a node after those that it needs; containers are filled later."""
        stack, open_ = [place], set()
        while stack:
            here = stack[-1]
            if here in self._values:
                stack.pop()
                continue
            node = self._nodes[here]
            needed = [part for part in self._needs(node) if part not in self._values]
            if needed and here in open_:
                raise ValueError("a value that cannot change contains itself")
            if needed:
                open_.add(here)
                stack += needed
                continue
            self._values[here] = self._read(node)
            stack.pop()

    def _needs(self, node: list[Any]) -> list[int]:
        tag = node[0]
        if tag in ("tuple", "frozenset"):
            items = node[1]
        elif tag == "record":
            items = node[2]
        elif tag in _MUTABLE:
            items = [*(node[3] or []), *node[4:]]
        elif tag in ("int", "str", "type", "constant", "same"):
            return []
        else:
            items = self._parts_of(node)
        return [item[0] for item in items if isinstance(item, list)]

    def _read(self, node: list[Any]) -> Any:
        tag = node[0]
        if tag in _MUTABLE:
            return self._container(node)
        if tag == "same":
            return self._shared.get(node[1])
        if tag in ("tuple", "frozenset"):
            kind = tuple if tag == "tuple" else frozenset
            return kind(self.values(node[1]))
        if tag == "int":
            return int(node[1], 16)
        if tag == "str":
            return bytes.fromhex(node[1]).decode("utf-32-be", "surrogatepass")
        if tag == "type":
            return _TYPES[node[1]]
        if tag == "constant":
            return _CONSTANTS[node[1]]
        if tag == "record":
            return records.made(node[1], self.values(node[2]))
        return self._named(self, node)

    def _container(self, node: list[Any]) -> Any:
        """The one of this key, or a new one that is still empty."""
        tag, key, _, own = node[:4]
        base = _MUTABLE[tag]
        if key is not None and type(key) is not int:
            raise ValueError("no key")
        is_known = key in self._shared
        if is_known:
            value = self._shared.get(key)
        elif own is not None:
            value = self._named(self, ["container", base, *own])
        else:
            value = base.__new__(base)
        if plain_base(type(value)) is not base:
            raise ValueError("a container of another type")
        if is_known:
            return value
        if tag == "deque":
            deque.__init__(value, (), node[4])
        elif tag == "defaultdict":
            factory = self.value(node[4])
            defaultdict.__init__(value, factory if callable(factory) else None)
        elif tag == "OrderedDict":
            OrderedDict.__init__(value)
        if key is not None:
            self._shared.add(value, key)
        return value


@functools.lru_cache(256)
def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False

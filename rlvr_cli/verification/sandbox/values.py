"""Values of Python as JSON and back, for two processes, one of which must not trust the other.

A message is a table of nodes: an item of a node is a scalar, or `[n]` for the node number n. So
what is contained twice stays one object, what contains itself does too, and no depth is too deep.
Scalars, and data that cannot change, cross by value with their exact type. Containers that can
change exist on both sides under one key; each message brings the contents of those that its sender
changed (`Shared`). Anything else stays where it is, and what crosses is its name: `objects.py`.

It runs inside the sandbox and imports only the standard library.
"""

import builtins
import functools
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

from rlvr_cli.verification.sandbox import records
from rlvr_cli.verification.sandbox.shared import (
    MUTABLE,
    TAGS,
    Shared,
    contents,
    plain_base,
    replace,
)

_SMALL = 1 << 62  # integers from here on are written in hexadecimal, as JSON's digits are slow
_CONSTANTS: dict[str, Any] = {"...": ..., "NotImplemented": NotImplemented}
_TYPES: dict[str, type] = {
    name: value
    for name, value in vars(builtins).items()
    if isinstance(value, type) and not issubclass(value, BaseException)
}


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
            self._place(self._shared.get(key), by_value=True)
        self._is_given = self._is_result
        item = [self._place(root)]
        self.nodes[item[0]] = ["tuple", self.items(root)]
        while self._todo:
            place, value, by_value, is_given = self._todo.pop()
            if self.nodes[place] is None:
                self._is_given = is_given and self._is_only_here(value)
                self.nodes[place] = self._node(value, by_value)
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
        if kinds == {int} and min(values) > -_SMALL and max(values) < _SMALL:
            return values
        if kinds == {float} or (kinds == {str} and all(map(str.isascii, values))):
            return values
        return [self.item(value) for value in values]

    def _place(self, value: Any, by_value: bool = False) -> int:
        place = self._places.get(id(value))
        if place is None:
            place = self._places[id(value)] = len(self.nodes)
            self._held.append(value)
            self.nodes.append(None)
            self._todo.append((place, value, by_value, self._is_given))
        return place

    def _is_only_here(self, value: Any) -> bool:
        return sys.getrefcount(value) <= _ONLY_HERE

    def _node(self, value: Any, by_value: bool) -> list[Any]:
        kind = type(value)
        if kind in TAGS:
            return self.container(value, by_value, None)
        if kind is tuple:
            return ["tuple", self.items(value)]
        if kind is frozenset:
            return ["frozenset", self.items(value)]
        if kind is int:
            return ["int", hex(value)]
        if kind is str:
            return ["str", value.encode("utf-32-be", "surrogatepass").hex()]
        if isinstance(value, type) and _TYPES.get(value.__name__) is value:
            return ["type", value.__name__]
        for name, constant in _CONSTANTS.items():
            if value is constant:
                return ["constant", name]
        if record := records.of(value):
            return ["record", record[0], self.items(record[1])]
        return self._name(self, value, by_value)

    def container(self, value: Any, by_value: bool, own: Any) -> list[Any]:
        """A container: its key, and what it holds unless the other side has that.

        One without a key is the other side's alone from then on.
        """
        key, base = self._shared.key_of(value), plain_base(type(value)) or list
        if key is not None and not by_value:
            return ["same", key]
        if key is None and self._is_given and own is None:
            node: list[Any] = [TAGS[base], None, self.items(contents(value, base)), own]
        else:
            self._is_given = False
            key = self._shared.add(value) if key is None else key
            node = [TAGS[base], key, self.items(self._shared.keep(key)), own]
        if isinstance(value, defaultdict):
            return [*node, self.item(value.default_factory)]
        return [*node, value.maxlen] if isinstance(value, deque) else node


class _Counting(Encoder):
    """Counts the references to objects that only one container refers to."""

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
        self._named = named  # the value of a node that is no plain data
        self._parts_of = is_late  # the items that such a node needs first
        self._values: dict[int, Any] = {}
        self._nodes: list[Any] = []

    def message(self, data: dict[str, Any]) -> Any:
        self._nodes, nodes = data["nodes"], data["nodes"]
        fills = []
        for place, node in enumerate(nodes):
            if node[0] in MUTABLE:
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
        """The value of an item; its node must have been read."""
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
        elif tag in MUTABLE:
            items = [*(node[3] or []), *node[4:]]
        elif tag in ("int", "str", "type", "constant", "same"):
            return []
        else:
            items = self._parts_of(node)
        return [item[0] for item in items if isinstance(item, list)]

    def _read(self, node: list[Any]) -> Any:
        tag = node[0]
        if tag in MUTABLE:
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
        base = MUTABLE[tag]
        if key is not None and type(key) is not int:
            raise ValueError("no key")
        if key is not None and key in self._shared:
            return _of_type(self._shared.get(key), base)
        if own is not None:
            value = _of_type(self._named(self, ["container", base, *own]), base)
        else:
            value = _empty(base)
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


def _empty(base: Any) -> Any:
    return base.__new__(base)


def _of_type(value: Any, base: type) -> Any:
    if plain_base(type(value)) is not base:
        raise ValueError("a container of another type")
    return value


@functools.lru_cache(256)
def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False

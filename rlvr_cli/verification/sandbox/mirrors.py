"""Proxies in one process for objects and classes of the other.

A mirror asks the other process for each attribute and operator. Its class mirrors the object's
class with its bases, so that `isinstance`, `except` and operators work as they would there. It runs
inside the sandbox and imports only the standard library.

The tests' process does not trust the program's word. Only a class that the tests name decides
whether an object equals plain data, is less or greater, or can be added to it: what a program
returns instead of a number equals no number, whatever its `__eq__` says.
"""

import types
from collections.abc import Callable
from typing import Any, Protocol

from rlvr_cli.verification.sandbox import shared

_COMPARING = ("eq", "ne", "lt", "le", "gt", "ge")
_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul", "and",
           "or", "xor", "lshift", "rshift")  # fmt: skip
_JUDGED = frozenset(
    f"__{prefix}{name}__" for name in (*_BINARY, *_COMPARING) for prefix in ("", "r", "i")
)
_SPOKEN = frozenset({"__str__", "__repr__", "__format__"})
_OTHERS = ("call", "iter", "next", "len", "getitem", "setitem", "delitem", "contains", "reversed",
           "enter", "exit", "bool", "int", "float", "complex", "index", "round", "trunc", "floor",
           "ceil", "neg", "pos", "abs", "invert", "hash", "bytes", "length_hint", "aiter", "anext",
           "aenter", "aexit", "await", "missing", "fspath")  # fmt: skip
_PLAIN = frozenset(f"__{name}__" for name in _OTHERS)
FORWARDED = _JUDGED | _SPOKEN | _PLAIN
_PREDICATES = frozenset(  # which only built-in data answers
    name
    for kind in (str, bytes, set, float)
    for name in dir(kind)
    if name.startswith(("is", "starts", "ends"))
)
_RELATED = (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, type(None))


class MirrorPeer(Protocol):
    """The conversation that a mirror is part of."""

    def ask(self, *request: Any) -> Any: ...

    def trusts(self, kind: type) -> bool:
        """Whether a class of the other side may say what equals plain data."""
        ...

    def released(self, ref: int) -> None: ...

    def derive(self, name: str) -> Any: ...


def ref_of(value: Any) -> int | None:
    """The number of an object that a value mirrors."""
    try:
        ref = object.__getattribute__(value, "_rlvr_ref")
    except (AttributeError, TypeError):
        return None
    return ref if type(ref) is int else None


class MirrorType(type):
    """The class of classes that mirror one of the other process."""

    _rlvr_peer: MirrorPeer

    def __new__(mcs, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> "MirrorType":
        if "_rlvr_peer" not in space:
            peers = [base._rlvr_peer for base in bases if isinstance(base, MirrorType)]
            peers[0].derive(name)
        return super().__new__(mcs, name, bases, space)

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        return cls._rlvr_peer.ask("call", cls, arguments, tuple(named.items()))

    def __getattr__(cls, name: str) -> Any:
        if name in ("__abstractmethods__", "__wrapped__", "__signature__", "__text_signature__"):
            raise AttributeError(name)
        return type.__getattribute__(cls, "_rlvr_peer").ask("get", cls, name)

    def __setattr__(cls, name: str, value: Any) -> None:
        cls._rlvr_peer.ask("set", cls, name, value)

    def __delattr__(cls, name: str) -> None:
        cls._rlvr_peer.ask("del", cls, name)

    def __iter__(cls) -> Any:
        return iter(cls._rlvr_peer.ask("items", cls))

    def __len__(cls) -> int:
        return len(cls._rlvr_peer.ask("items", cls))

    def __bool__(cls) -> bool:
        return True

    def __getitem__(cls, key: Any) -> Any:
        return cls._rlvr_peer.ask("item", cls, key)

    def __contains__(cls, value: Any) -> bool:
        return any(value is item or value == item for item in cls)


class Mirror:
    """An object of the other process."""

    _rlvr_peer: MirrorPeer
    _rlvr_ref: int

    def __getattr__(self, name: str) -> Any:
        peer = type(self)._rlvr_peer
        if name in _PREDICATES and not _judge(self):
            raise AttributeError(name)
        return peer.ask("get", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(self, BaseException) and name.startswith("__"):
            object.__setattr__(self, name, value)
        else:
            type(self)._rlvr_peer.ask("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        type(self)._rlvr_peer.ask("del", self, name)

    def __copy__(self) -> Any:
        return type(self)._rlvr_peer.ask("copy", self)

    def __deepcopy__(self, memo: Any) -> Any:
        return type(self)._rlvr_peer.ask("deepcopy", self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("an object of another process cannot be pickled")

    def __dir__(self) -> Any:
        return type(self)._rlvr_peer.ask("dir", self)

    def __del__(self) -> None:
        ref = ref_of(self)
        if ref is not None:
            type(self)._rlvr_peer.released(ref)


def make_class(
    peer: MirrorPeer,
    name: str,
    bases: list[type],
    names: list[str],
    *,
    is_hashable: bool,
    stands_for: type | None = None,
) -> type:
    """The class that mirrors one of the other side, whose own operators have these names.

    Its objects pass for those of a class that both sides have.
    """
    space: dict[str, Any] = {
        "_rlvr_peer": peer, "__dict__": property(_attributes), "__doc__": _Documentation(),
        "__module__": "solution",
    }  # fmt: skip
    if stands_for is not None:
        space["__class__"] = property(lambda self: stands_for)
    plain = next((base for kind in bases if (base := shared.plain_base(kind))), None)
    kept = [base for base in bases if _is_base(base)]
    if not any(issubclass(base, Mirror) for base in kept):
        kept.insert(0, Mirror)
    try:
        mirror = MirrorType(name, tuple(kept), space)
    except TypeError:  # bases whose layouts do not fit together
        mirror = MirrorType(name, (Mirror,), space)
    for method in names:
        if method in FORWARDED:
            type.__setattr__(mirror, method, _forward(method, plain))
        elif plain is not None:
            type.__setattr__(mirror, method, property(_getter(method, plain)))
    if "__get__" in names:
        type.__setattr__(mirror, "__get__", _bound)
    if not is_hashable:
        type.__setattr__(mirror, "__hash__", None)
    elif "__eq__" in vars(mirror) and "__hash__" not in vars(mirror):
        type.__setattr__(mirror, "__hash__", _forward("__hash__", plain))
    return mirror


def _is_base(kind: type) -> bool:
    return (
        issubclass(kind, Mirror | BaseException)
        or shared.plain_base(kind) is kind
    )  # fmt: skip


class _Documentation:
    def __get__(self, value: Any, kind: Any) -> Any:
        return kind._rlvr_peer.ask("get", kind if value is None else value, "__doc__")


def _bound(self: Any, value: Any, kind: Any = None) -> Any:
    return self if value is None else types.MethodType(self, value)


def _attributes(self: Any) -> Any:
    return type(self)._rlvr_peer.ask("get", self, "__dict__")


def _getter(name: str, plain: type) -> Callable[[Any], Any]:
    """What a program redefines of built-in data, where the tests name its class."""

    def get(self: Any) -> Any:
        if _judge(self) is None:
            return getattr(plain, name).__get__(self)
        return type(self)._rlvr_peer.ask("get", self, name)

    return get


def _judge(value: Any) -> type | None:
    """The class of an object, or the nearest above it, that may judge it."""
    kind = type(value)
    if not isinstance(kind, MirrorType):
        return None
    trusts = kind._rlvr_peer.trusts
    return next((k for k in kind.__mro__ if isinstance(k, MirrorType) and trusts(k)), None)


def _forward(name: str, plain: type | None) -> Callable[..., Any]:
    """A method that has the other process apply an operator."""
    local = getattr(plain, name, None) if plain else None
    if name in _SPOKEN and plain is not str:
        local = None

    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        peer = type(self)._rlvr_peer
        if local and _judge(self) is None:
            return local(self, *arguments, **named)
        if name == "__call__":
            return peer.ask("call", self, arguments, tuple(named.items()))
        return peer.ask("op", None, name, self, arguments)

    def judged(self: Any, other: Any, *more: Any) -> Any:
        peer, kind = type(self)._rlvr_peer, _judge(self)
        if kind is None and local:
            return local(self, other, *more)
        is_mirror = isinstance(type(other), MirrorType)
        if kind is None and (not is_mirror or _judge(other)):
            return NotImplemented  # so that the other operand decides, or they differ
        if not is_mirror and not is_data(other):
            return NotImplemented
        return peer.ask("op", kind, name, self, (other, *more))

    def contains(self: Any, item: Any) -> Any:
        if _judge(self) is None:
            return local(self, item) if local else any(item is one or item == one for one in self)
        return type(self)._rlvr_peer.ask("op", None, name, self, (item,))

    forward = judged if name in _JUDGED else contains if name == "__contains__" else method
    forward.__name__ = name
    return forward


def is_data(value: Any) -> bool:
    """Whether it crosses by value, itself at least."""
    return isinstance(value, _RELATED) or shared.is_value(value)

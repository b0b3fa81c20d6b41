"""Data of the standard library that cannot change, and numpy's arrays: what to make them of.

It runs inside the sandbox and imports only the standard library; a module that it needs is one
that the sender has imported.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

Parts = tuple[Any, ...]


def of(value: Any) -> tuple[str, Parts] | None:
    """The name of a kind of data, and the parts to make it of; None of anything else."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if name in _KINDS and _type_of(name) is kind:
        return name, _KINDS[name][0](value)
    if kind in _VIEWS:
        return _VIEWS[kind], _pairs(value, kind)
    numpy = sys.modules.get("numpy")
    if numpy is None or kind.__module__ != "numpy":
        return None
    is_data = isinstance(value, numpy.generic | numpy.ndarray)
    if is_data and not value.dtype.hasobject and value.dtype.names is None:
        return _numpy_parts(value)
    return None


def made(name: str, parts: Sequence[Any]) -> Any:
    """The data of a name; an error if its parts do not make any."""
    if name in _FROM_PAIRS:
        return _FROM_PAIRS[name](parts)
    if name in ("array", "scalar"):
        return _numpy_made(name, *parts)
    make = _KINDS[name][1]
    return make(_type_of(name, load=True), *parts)


def is_array(value: Any) -> bool:
    """Whether it is an array, which crosses by value although it can change."""
    return f"{type(value).__module__}.{type(value).__qualname__}" in (
        "numpy.ndarray",
        "array.array",
    )


def has_type(module: str, name: str) -> bool:
    """Whether a name is of a class of plain data."""
    return f"{module}.{name}" in _KINDS or (module == "collections" and name in _COLLECTIONS)


def type_of(module: str, name: str) -> Any:
    return _type_of(f"{module}.{name}", load=True)


def _type_of(name: str, *, load: bool = False) -> Any:
    module, _, kind = name.rpartition(".")
    if load:
        return getattr(importlib.import_module(module), kind)
    return getattr(sys.modules.get(module), kind, None)


def _make(kind: Any, *parts: Any) -> Any:
    return kind(*parts)


def _attributes(*names: str) -> Callable[[Any], Parts]:
    return lambda value: tuple(getattr(value, name) for name in names)


def _with_fold(kind: Any, *parts: Any) -> Any:
    return kind(*parts[:-1], fold=parts[-1])


_Kind = tuple[Callable[[Any], Parts], Callable[..., Any]]  # its parts, and how they make it again
_AS_TEXT: _Kind = (lambda value: (str(value),), _make)
_TIME = ("hour", "minute", "second", "microsecond", "tzinfo", "fold")
_DAY = ("year", "month", "day")
_KINDS: dict[str, _Kind] = {
    "builtins.complex": (_attributes("real", "imag"), _make),
    "builtins.bytes": (lambda value: (value.hex(),), lambda kind, text: kind.fromhex(text)),
    "builtins.range": (_attributes("start", "stop", "step"), _make),
    "builtins.slice": (_attributes("start", "stop", "step"), _make),
    "decimal.Decimal": _AS_TEXT,
    "fractions.Fraction": (_attributes("numerator", "denominator"), _make),
    "datetime.date": (_attributes(*_DAY), _make),
    "datetime.time": (_attributes(*_TIME), _with_fold),
    "datetime.datetime": (_attributes(*_DAY, *_TIME), _with_fold),
    "datetime.timedelta": (_attributes("days", "seconds", "microseconds"), _make),
    "datetime.timezone": (lambda value: value.__getinitargs__(), _make),
    "zoneinfo.ZoneInfo": (_attributes("key"), _make),
    "uuid.UUID": _AS_TEXT,
    "pathlib.PosixPath": _AS_TEXT,
    "pathlib.PurePosixPath": _AS_TEXT,
    "pathlib._local.PosixPath": _AS_TEXT,  # Python 3.13's name
    "pathlib._local.PurePosixPath": _AS_TEXT,
    "ipaddress.IPv4Address": _AS_TEXT,
    "ipaddress.IPv6Address": _AS_TEXT,
    "array.array": (
        lambda value: (value.typecode, value.tobytes()),
        lambda kind, code, data: kind(code, data) if isinstance(data, bytes) else kind(code),
    ),
    "builtins.memoryview": (lambda value: (value.tobytes(),), _make),
}
_COLLECTIONS = ("deque", "defaultdict", "OrderedDict", "Counter")
_VIEWS = {type({}.keys()): "keys", type({}.values()): "values", type({}.items()): "items"}
_FROM_PAIRS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "keys": lambda parts: dict.fromkeys(parts).keys(),
    "values": lambda parts: dict(enumerate(parts)).values(),
    "items": lambda parts: dict(parts).items(),
}


def _pairs(view: Any, kind: type) -> Parts:
    return tuple(kind.__iter__(view))  # type: ignore[attr-defined]


def _numpy_parts(value: Any) -> tuple[str, Parts]:
    name = "array" if hasattr(value, "__len__") or type(value).__name__ == "ndarray" else "scalar"
    return name, (value.dtype.str, tuple(value.shape), value.tobytes())


def _numpy_made(name: str, kind: str, shape: tuple[int, ...], data: bytes) -> Any:
    numpy = importlib.import_module("numpy")
    dtype = numpy.dtype(kind)
    if dtype.hasobject:
        raise ValueError("an array of objects")
    array = numpy.frombuffer(data, dtype).reshape(shape).copy()
    return array if name == "array" else array[()]

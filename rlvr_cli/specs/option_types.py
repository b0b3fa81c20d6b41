"""What the values of a spec mean, by the types in a signature, and how they are spelled."""

import collections.abc
import inspect
import math
import re
import types
from typing import Any, Literal, Union, get_args, get_origin

from rlvr_cli.specs.grammar import Quoted, Value, quoted

_NAMED = {int: "an integer", float: "a number", bool: "true or false", str: "text"}
_EXAMPLES = {int: "1", float: "0.5", bool: "true", str: "text"}
_LISTS = (list, tuple, collections.abc.Sequence)
_TABLES = (dict, collections.abc.Mapping)
_UNTYPED = (Any, object, inspect.Parameter.empty)
_NUMBER = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DIGITS = 300  # of an integer; more is text
_WITHIN = '+=[]{}"'  # signs that are quoted within brackets


def convert(value: Value, kind: Any) -> Any:
    """A value as it was read, as one of the type `kind`; ValueError if it is none.

    `kind` is int, float, bool, str, a Literal, list, tuple or Sequence, dict or Mapping, a union
    of these (`none` is None), or Any: then text is read as true, false, none or a number if it is
    one.
    """
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of(value, inner)
    if kind in _UNTYPED:
        return _untyped(value)
    if origin is Literal:
        return _choice(value, inner)
    if origin in _LISTS:
        return _sequence(value, origin, inner)
    if origin in _TABLES:
        return _table(value, inner)
    if not isinstance(value, str) or (isinstance(value, Quoted) and kind is not str):
        raise ValueError
    if kind is str:
        return str(value)
    if kind is bool:
        return _word(value.lower(), {"true": True, "false": False})
    if kind in (type(None), None):
        return _word(value, {"none": None})
    number = kind(value)
    if number != number:  # NaN
        raise ValueError
    return number


def is_list(kind: Any) -> bool:
    """Whether values of a type may be lists."""
    members = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    return any((get_origin(member) or member) in _LISTS for member in members)


def _word(value: str, meanings: dict[str, Any]) -> Any:
    if value not in meanings:
        raise ValueError
    return meanings[value]


def _one_of(value: Value, kinds: tuple[Any, ...]) -> Any:
    """The value as the first type that takes it; None before text."""
    for kind in sorted(kinds, key=lambda kind: kind is str):
        try:
            return convert(value, kind)
        except (ValueError, TypeError):
            continue
    raise ValueError


def _choice(value: Value, choices: tuple[Any, ...]) -> Any:
    for choice in choices:
        if isinstance(value, str) and value == (choice if isinstance(choice, str) else str(choice)):
            return choice
    raise ValueError


def _sequence(value: Value, origin: Any, inner: tuple[Any, ...]) -> Any:
    if not isinstance(value, list):
        raise ValueError
    if origin is not tuple:
        return [convert(item, inner[0] if inner else Any) for item in value]
    if not inner or inner[-1] is Ellipsis:
        return tuple(convert(item, inner[0] if inner else Any) for item in value)
    return tuple(convert(item, kind) for item, kind in zip(value, inner, strict=True))


def _table(value: Value, inner: tuple[Any, ...]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError
    return {key: convert(item, inner[1] if inner else Any) for key, item in value.items()}


def _untyped(value: Value) -> Any:
    if isinstance(value, list):
        return [_untyped(item) for item in value]
    if isinstance(value, dict):
        return {key: _untyped(item) for key, item in value.items()}
    if isinstance(value, Quoted):
        return str(value)
    if _NUMBER.fullmatch(value):
        number = float(value)
        is_integer = value.removeprefix("-").isdecimal() and len(value) <= _DIGITS
        return int(value) if is_integer else number if math.isfinite(number) else value
    return {"true": True, "false": False, "none": None}.get(value, value)


def spell(value: Any, kind: Any, *, plus_ends: bool = False, is_inside: bool = False) -> str:
    """A value in the one spelling that `convert` reads as it again.

    Text outside brackets is quoted only where it must be; `plus_ends` says whether a `+` ends
    it there.
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        kinds = _item_kinds(kind, len(value))
        items = (spell(v, k, is_inside=True) for v, k in zip(value, kinds, strict=True))
        return f"[{','.join(items)}]"
    if isinstance(value, collections.abc.Mapping):
        inner = _matching(kind, _TABLES)
        item_kind = inner[1] if inner else Any
        pairs = ((_text(k, str, _WITHIN), spell(value[k], item_kind, is_inside=True))
                 for k in sorted(value))  # fmt: skip
        return f"{{{','.join(f'{key}={item}' for key, item in pairs)}}}"
    if not isinstance(value, str):
        return str(float(value) if kind is float else value).replace("e+", "e")
    return _text(value, kind, _WITHIN if is_inside else "+" if plus_ends else "")


def _text(text: str, kind: Any, within: str) -> str:
    """Text that is read as itself: in quotes where it would end early or mean something else."""
    written = quoted(text, within=within)
    if written == text and (convert(text, kind) != text or (within == _WITHIN and not text)):
        return f'"{text}"'
    return written


def _matching(kind: Any, origins: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a type, or of the member of a union, whose origin is one of these."""
    members = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    choices = (get_args(member) for member in members if (get_origin(member) or member) in origins)
    return next(choices, ())


def _item_kinds(kind: Any, count: int) -> list[Any]:
    inner = _matching(kind, _LISTS)
    if not inner:
        return [Any] * count
    return list(inner) if len(inner) == count and Ellipsis not in inner else [inner[0]] * count


def expected(kind: Any) -> str:
    """What a value of this type is, in words."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(expected(member) for member in inner)
    if origin is Literal:
        return f"one of {', '.join(map(str, inner))}"
    if kind in (None, type(None)):
        return "none"
    if origin is tuple and inner and inner[-1] is not Ellipsis:
        return f"a list of {len(inner)}, as in {example(kind)}"
    if origin in _LISTS:
        return "a list, as in [a,b]"
    return "a table, as in {a=1,b=2}" if origin in _TABLES else _NAMED.get(kind, "a value")


def example(kind: Any) -> str:
    """A value of this type as it may be written."""
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, types.UnionType):
        return example(inner[0])
    if origin is Literal:
        return spell(next(filter(None, inner), inner[0]), kind)
    if origin is tuple and inner and inner[-1] is not Ellipsis:
        rising = (  # as the ends of a range must
            f"{float(example(one)) + place:g}" if one in (int, float) else example(one)
            for place, one in enumerate(inner)
        )
        return f"[{','.join(rising)}]"
    if origin in _LISTS:
        return "[]"
    return "{a=1,b=2}" if origin in _TABLES else _EXAMPLES.get(kind, "none")

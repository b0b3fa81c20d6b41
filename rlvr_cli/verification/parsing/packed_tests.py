"""Tests that a data set packs as base64 of zlib of a pickle, as LiveCodeBench's private ones are.

A pickle is a program for a machine that can import and call anything. Here only those of its
operations are carried out that make text, numbers, lists and dicts.
"""

import base64
import binascii
import pickletools
import re
import zlib
from typing import Any

_MOST = 256 << 20  # bytes of what is unpacked
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}")
_VALUES = {
    "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE", "BININT", "BININT1", "BININT2",
    "INT", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT",
}  # fmt: skip
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_IGNORED = {"PROTO", "FRAME", "STOP"}


class Unreadable(Exception):
    """Why text is no packed tests."""


def is_packed(text: str) -> bool:
    """Whether a text is base64 of zlib."""
    return text[:2] in ("eJ", "eN", "eA", "eF") and _BASE64.fullmatch(text) is not None


def unpacked(text: str) -> Any:
    """The text, list or dict that was packed; nothing in it is run."""
    try:
        data = base64.b64decode(text, validate=False)
        unzip = zlib.decompressobj()
        plain = unzip.decompress(data, _MOST)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise Unreadable(f"its packed tests cannot be unpacked: {error}") from error
    if unzip.unconsumed_tail:
        raise Unreadable(f"its packed tests are more than {_MOST >> 20} MiB")
    if not unzip.eof:
        raise Unreadable("its packed tests are cut")
    if plain[:1] in (b"[", b"{", b'"'):  # packed without a pickle
        return plain.decode(errors="replace")
    try:
        return _value(plain)
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise Unreadable(f"its packed tests are no pickle of text: {error}"[:160]) from error


def _value(pickled: bytes) -> Any:
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}
    for code, argument, _ in pickletools.genops(pickled):
        name = code.name
        if name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in ("EMPTY_LIST", "EMPTY_DICT"):
            stack.append([] if name == "EMPTY_LIST" else {})
        elif name == "MARK":
            marks.append(len(stack))
        elif name in ("APPEND", "APPENDS", "SETITEM", "SETITEMS"):
            _fill(stack, name, marks)
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            memo[int(str(argument))] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(memo[int(str(argument))])
        elif name not in _IGNORED:
            raise ValueError(f"it holds the operation {name}, which is not carried out")
    if len(stack) != 1:
        raise ValueError("it does not end with one value")
    return stack[0]


def _fill(stack: list[Any], name: str, marks: list[int]) -> None:
    """Adds what follows the mark, or the last item or pair, to the list or dict before it."""
    start = marks.pop() if name.endswith("S") else len(stack) - (1 if name == "APPEND" else 2)
    items = stack[start:]
    del stack[start:]
    if name.startswith("APPEND"):
        stack[-1].extend(items)
    else:
        stack[-1].update(zip(items[::2], items[1::2], strict=True))

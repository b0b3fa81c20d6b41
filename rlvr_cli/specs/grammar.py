"""The grammar of specs: of objectives, modifiers, verifiers, engines, tasks, and the others.

    sum    = piece { "+" piece }                  algorithms and rewards; elsewhere `+` is text
    piece  = [ weight "*" ] name [ ":" option { "," option } ]
    name   = word | path ".py:" function          a path may be quoted: "c++/mine.py":build
    option = key "=" value
    value  = text | quoted | "[" value, ... "]" | "{" key "=" value, ... "}"
    quoted = a JSON string: "a, b", with \\" and \\\\ and \\n

As in `grpo:clip_high=0.3+kl:beta=0.001`, `0.9*math+0.1*format`, `code:allow=[numpy,scipy]`,
`./mine.py:build:clip=0.3`. Text ends at a comma, a `+` or the bracket it is in; the plus sign
of an exponent, as in 1e+3, is part of the number, and within brackets text may hold others. The
type of an option decides what text means.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from rlvr_cli.errors import UsageError

_DEEPEST = 32  # brackets within one another
_CLOSE = {"[": "]", "{": "}"}
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_KEY = re.compile(r"\s*\w+\s*=")
_MANTISSA = re.compile(r"\s*-?(?:\d+\.?\d*|\.\d+)[eE]")


class Quoted(str):
    """Text that was quoted, so that it is neither a number nor a word such as `true`."""


Value = Any  # str, Quoted, list[Value] or dict[str, Value]


@dataclass(frozen=True)
class Spec:
    """A name and its options as they are written; `path` and `function` of a name that is code."""

    name: str
    options: tuple[tuple[str, Value | None], ...]  # None where no `=` follows the key
    path: str = ""
    function: str = ""


def read(text: str) -> Spec:
    """The one spec that a text holds."""
    return _Reader(text, ends="").spec()


def pieces(text: str) -> list[str]:
    """The pieces of a sum, each with its weight, as in `grpo+kl:beta=1`."""
    return _Reader(text, ends="+").texts()


def listed(text: str) -> list[str]:
    """The specs of a list, as in `edit,embedding:model=m,jaccard`: `key=` belongs to the spec
    before it."""
    return _Reader(text, ends=",").texts()


def quoted(text: str, *, within: str = "") -> str:
    """Text as it is written in a spec: in quotes if it could be read as something else.

    `within` holds the signs that, like a comma, would end it there.
    """
    is_plain = text == text.strip() and text[:1] not in ('"', "[", "{") and text.isprintable()
    if is_plain and not any(sign in text for sign in f",{within}"):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())


def file_name(path: str, function: str) -> str:
    """The name of a function of a file."""
    return f"{quoted(path, within=':+*')}:{function}"


class _Reader:
    """Reads a text from left to right; `ends` are the signs that end a spec."""

    def __init__(self, text: str, *, ends: str) -> None:
        self.at = 0
        self._text, self._ends = text, ends
        self._open: list[str] = []  # what closes the brackets that are open

    def texts(self) -> list[str]:
        """The specs between the signs that end one, as they are written."""
        pieces = []
        while True:
            start = self.at
            self.spec()
            pieces.append(self._text[start : self.at])
            if not self._next():
                return pieces
            self.at += 1

    def spec(self) -> Spec:
        name, path, function = self._name(), "", ""
        if name.endswith(".py") and self._next() == ":":
            self.at += 1
            path, function = name, self._bare(":,").strip()
            name = file_name(path, function)
        options = []
        while self._next() == ":" or self._is_before_option():
            self.at += 1
            key, value = self._bare("=,").strip(), None
            if self._next() == "=":
                self.at += 1
                value = self._value()
            if key or value is not None:
                options.append((key, value))
        return Spec(name, tuple(options), path, function)

    def _name(self) -> str:
        self._space()
        name = self._bare(':,"')
        if self._next() == '"' and (not name or name.endswith("*")):  # a path, maybe with a weight
            name += self._string()
        return (name + self._bare(":,")).strip()

    def _value(self) -> Value:
        """A value with the white space around it."""
        self._space()
        if self._next() == '"':
            value: Value = self._string()
        elif self._next() in ("[", "{"):
            value = self._table() if self._next() == "{" else self._list()
        else:
            return self._bare(",").strip()
        self._space()
        if self._next() not in ("", ",", *(self._open[-1:] or self._ends)):
            self._refuse(f"`{self._text[self.at :][:40]}` follows the end of a value", "end it")
        return value

    def _list(self) -> list[Value]:
        items: list[Value] = []
        for _ in self._items():
            items.append(self._value())
            if items[-1] == "" and not isinstance(items[-1], Quoted):
                self._refuse("a list has an empty item", "leave it out, or write it as", '""')
        return items

    def _table(self) -> dict[str, Value]:
        table: dict[str, Value] = {}
        for _ in self._items():
            key = str(self._string()) if self._next() == '"' else self._bare("=,").strip()
            self._space()
            if self._next() != "=":
                self._refuse(f"the key `{key}` of a table has no value", "give it one", "=1")
            if key in table:
                raise UsageError(f"`{self._text}` gives the key `{key}` twice", "give it once")
            self.at += 1
            table[key] = self._value()
        return table

    def _items(self) -> Iterator[None]:
        """Stands at each item of a list or a table in turn, and then after its closing bracket."""
        self._open.append(_CLOSE[self._next()])
        if len(self._open) > _DEEPEST:
            raise UsageError(
                f"`{self._text[:60]}...` has more than {_DEEPEST} brackets within one another",
                "write fewer levels",
            )
        self.at += 1
        self._space()
        while self._next() != self._open[-1]:
            if not self._next():
                self._refuse("a bracket is not closed", "close it")
            yield
            self._space()
            self.at += self._next() == ","
            self._space()
        self.at += 1
        self._open.pop()

    def _string(self) -> Quoted:
        match = _STRING.match(self._text, self.at)
        if not match:
            self.at = len(self._text)
            self._refuse("a quote is not closed", "close it", '"')
        try:
            value = json.loads(match[0], strict=False)
        except (ValueError, RecursionError):
            right = re.sub(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?', _doubled, match[0])
            raise UsageError(
                f"`{self._text}`: a backslash within quotes is written twice",
                f"write `{self._text.replace(match[0], right)}`",
            ) from None
        self.at = match.end()
        return Quoted(value)

    def _bare(self, ends: str) -> str:
        """Text up to one of these signs, or to what ends it there.

        Within brackets it may hold others, as in `{arc=any:of=[math,choice]}`.
        """
        ends += self._open[-1] if self._open else self._ends
        start, inner = self.at, 0
        while sign := self._next():
            if not inner and sign in ends and not self._is_exponent(start):
                break
            if self._open:
                inner += (sign in _CLOSE) - (inner > 0 and sign in _CLOSE.values())
            self.at += 1
        return self._text[start : self.at]

    def _is_before_option(self) -> bool:
        """Whether the comma here is followed by an option, and not by the next spec of a list."""
        if self._next() != "," or "," not in self._ends:
            return self._next() == ","
        return bool(_KEY.match(self._text, self.at + 1))

    def _is_exponent(self, start: int) -> bool:
        """Whether the plus sign here is that of a number such as 1e+3, which begins at `start`."""
        digit = self._text[self.at + 1 : self.at + 2]
        is_plus = self._next() == "+" and digit.isdecimal()
        return is_plus and bool(_MANTISSA.fullmatch(self._text, start, self.at))

    def _space(self) -> None:
        while self._next().isspace():
            self.at += 1

    def _next(self) -> str:
        return self._text[self.at : self.at + 1]

    def _refuse(self, why: str, what: str, more: str = "") -> NoReturn:
        """An error whose hint is the text up to here, with all that is open closed."""
        head = self._text[: self.at].rstrip("" if more else ", ")
        closed = head + more + "".join(reversed(self._open))
        raise UsageError(f"`{self._text}`: {why}", f"{what}: `{closed}`")


def _doubled(match: re.Match[str]) -> str:
    return match[0] if match[1] else "\\\\"

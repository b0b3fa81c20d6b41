r"""Residue classes: `x \equiv 3 \pmod 7`, `x = 7k + 3`, `17 \bmod 5`."""

import functools
import math
import re
from dataclasses import dataclass

from rlvr_cli.verification.mathematics import expressions, numerals, plain, shapes, trailers

_MODULUS = (
    r"\s*(?:\\text\s*\{\s*)?\(?\s*(?:\\[pb]?mod(?![a-zA-Z])|\\(?:text|mathrm|operatorname)\s*\{\s*\(?"
    r"\s*mod(?:ulo)?\s*\}?|\bmod(?:ulo)?(?![a-z]))\s*\{?\s*([0-9]{1,18})\s*\}?\s*\)?\s*\}?"
)
_CLASS = re.compile(rf"(?:([^=,;]*?)\s*(?:\\equiv(?![a-zA-Z])|=)\s*)?([^=;]*?){_MODULUS}")
_UNKNOWN = re.compile(r"(-?)\s*([0-9]{0,9})\s*(?:\\cdot\s*|\*\s*)?([a-zA-Z](?:_\{?\w+\}?)?)")
_TERM = r"([0-9]{1,18})\s*(?:\\cdot\s*|\*\s*)?([jklmnt])(?![a-zA-Z_(^])"
_MULTIPLES = re.compile(
    rf"(?:([a-zA-Z](?:_\{{?\w+\}}?)?)\s*=\s*)?(?:{_TERM}\s*(?:([-+])\s*([0-9]{{1,18}}))?"
    rf"|(-?[0-9]{{1,18}})\s*([-+])\s*{_TERM})"
)
_SOME = re.compile(r"positive|negative|natural|whole|odd|even|prime|mathbb\s*\{?\s*N")
_EITHER = re.compile(r"^\\pm(?![a-zA-Z])\s*")
_MOST = 10_000  # classes that are compared one by one


@dataclass(frozen=True)
class Classes:
    r"""Integers by what they leave; `unknown` is empty where none is named.

    `is_number` says that they are the value of `17 \bmod 5`.
    """

    unknown: str
    residues: frozenset[int]
    modulus: int
    is_number: bool = False


def equal(gold: str, answer: str) -> bool | None:
    """Whether two texts mean the same residue classes; None if neither is written with "mod"."""
    if "mod" not in gold and "mod" not in answer:
        return None
    left, right = read(gold), read(answer)
    if left is None and right is None:
        return None
    if left is None or right is None:
        return _is_value(left or right, answer if left else gold, has_gold=left is not None)
    return _same(left, right)


@functools.lru_cache(maxsize=1024)
def read(text: str) -> Classes | None:
    r"""The classes of `x \equiv 1, 4 \pmod 7`, also with "or" between several; None of another."""
    if "mod" not in text:
        return None
    if match := _CLASS.fullmatch(text):
        is_number = match[1] is None and r"\bmod" in text
        if classes := _solved(match[1], match[2], int(match[3]), is_number):
            return classes
    items = shapes.items(text)
    parts = [part for item in items if len(items) > 1 and (part := read(item))]
    if len(parts) < max(2, len(items)) or len({(p.unknown, p.modulus) for p in parts}) > 1:
        return None
    residues = frozenset().union(*(part.residues for part in parts))
    return Classes(parts[0].unknown, residues, parts[0].modulus)


def _solved(left: str | None, right: str, modulus: int, is_number: bool) -> Classes | None:
    r"""The solutions of `left \equiv right`, a list of integers, where `left` is a multiple."""
    residues = _integers(right)
    if not residues or not modulus:
        return None
    if not left:
        return Classes("", frozenset(r % modulus for r in residues), modulus, is_number)
    unknown = _UNKNOWN.fullmatch(left.strip())
    if unknown is None:
        name, factor = plain.squeezed(left).replace(" ", ""), 1
    else:
        name, factor = shapes.name_of(unknown[3]), int(unknown[2] or 1) * (-1 if unknown[1] else 1)
    divisor = math.gcd(factor, modulus)
    size = modulus // divisor
    inverse = pow(factor // divisor, -1, size) if size > 1 else 0
    solved = (r // divisor * inverse % size for r in residues if r % divisor == 0)
    return Classes(name, frozenset(solved), size)


def _integers(text: str) -> list[int] | None:
    r"""The integers of a list, where `\pm 1` are two."""
    numbers: list[int] = []
    for item in shapes.items(text, groups=False):
        value = expressions.rational(_EITHER.sub("", item))
        if value is None or value.denominator != 1:
            return None
        numbers += [int(value), -int(value)] if _EITHER.match(item) else [int(value)]
    return numbers


def _multiples(text: str) -> Classes | None:
    """The classes of `x = 7k + 3`, where k may be any integer."""
    value, domain = trailers.parted(text)
    match = _MULTIPLES.fullmatch(value.strip())
    if match is None or domain not in ("", "Z") or _SOME.search(text):
        return None
    name, first, letter, sign, rest, start, turned, second, other = match.groups()
    modulus = int(first or second)
    residue = int(start) if start else int((sign or "") + (rest or "0"))
    if not modulus or name == (letter or other) or (turned is None and start):
        return None
    return Classes(shapes.name_of(name or ""), frozenset({residue % modulus}), modulus)


def _is_value(classes: Classes | None, other: str, *, has_gold: bool) -> bool:
    """Whether the other text means the classes: by its multiples, or as the remainder."""
    assert classes
    if multiples := _multiples(other):
        return _same(classes, multiples)
    number = numerals.number(other)
    if number is None or len(classes.residues) > 1 or not (has_gold or classes.is_number):
        return False
    (residue,) = classes.residues or (None,)
    is_class = has_gold and number.value.denominator == 1
    value = number.value % classes.modulus if is_class else number.value
    return residue == value and -classes.modulus < number.value < classes.modulus


def _same(left: Classes, right: Classes) -> bool:
    if left.unknown and right.unknown and left.unknown != right.unknown:
        return False
    modulus = math.lcm(left.modulus, right.modulus)
    if left.modulus == right.modulus:
        return left.residues == right.residues
    return modulus <= _MOST and _spread(left, modulus) == _spread(right, modulus)


def _spread(classes: Classes, modulus: int) -> set[int]:
    return {r + n for r in classes.residues for n in range(0, modulus, classes.modulus)}

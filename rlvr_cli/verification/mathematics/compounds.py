r"""Amounts of several units: `2 hours 30 minutes`, `5'4"`, `3\text{ lb }4\text{ oz}`."""

import re
from fractions import Fraction

from rlvr_cli.verification.mathematics import numerals, plain, units

_SIZES = {  # of each unit, in the smallest of its kind
    "s": ("time", 1), "min": ("time", 60), "h": ("time", 3600), "day": ("time", 86400),
    "week": ("time", 604800), "in": ("length", 1), "ft": ("length", 12), "yd": ("length", 36),
    "mi": ("length", 63360), "mm": ("metres", 1), "cm": ("metres", 10), "m": ("metres", 1000),
    "km": ("metres", 10**6), "oz": ("weight", 1), "lb": ("weight", 16), "g": ("grams", 1),
    "kg": ("grams", 1000), "cent": ("dollars", 1), "$": ("dollars", 100), "month": ("months", 1),
    "year": ("months", 12), "ml": ("litres", 1), "l": ("litres", 1000),
}  # fmt: skip
_AMOUNT = r"([0-9]+(?:\.[0-9]+)?|[0-9]* ?\\frac\{[0-9]+\}\{[0-9]+\})\s*"
_PART = re.compile(_AMOUNT + r"([a-zA-Z$]+)\.?\s*(?:,\s*)?(?:and(?![a-zA-Z])\s*)?")
_FEET = re.compile(r"([0-9]+)\s*'\s*([0-9]+(?:\.[0-9]+)?)\s*(?:''|\")")


def equal(gold: str, answer: str) -> bool | None:
    """Whether two amounts are the same; None if neither is of several units."""
    sizes = _size(gold), _size(answer)
    if sizes == (None, None):
        return None
    left, right = (size or _single(text) for size, text in zip(sizes, (gold, answer), strict=True))
    return left is not None and left == right


def is_one(text: str) -> bool:
    """Whether a text is an amount of several units."""
    return _size(text) is not None


def _size(text: str) -> tuple[str, Fraction] | None:
    """The kind of an amount of several units, each smaller than the last, and its size."""
    if not text[:1].isdigit():
        return None
    bare = _FEET.sub(r"\1 ft \2 in", plain.unwrapped(text.replace(r"\text", r" \text")))
    total, kinds, last, place = Fraction(0), set(), None, 0
    count = 0
    while place < len(bare) and (part := _PART.match(bare, place)):
        number, unit = numerals.number(part[1].strip()), units.known(part[2])
        if number is None or unit not in _SIZES:
            return None
        kind, size = _SIZES[unit]
        if last is not None and (size >= last or number.value * size >= last):
            return None
        kinds.add(kind)
        total, last, place, count = total + number.value * size, size, part.end(), count + 1
    return (kinds.pop(), total) if count > 1 and place == len(bare) and len(kinds) == 1 else None


def _single(text: str) -> tuple[str, Fraction] | None:
    """The same of an amount of one unit."""
    is_dollars = plain.currency(text) == "dollar"
    quantity = units.split(plain.without_money(text))
    number = numerals.number(quantity.number)
    if is_dollars and number is not None:
        return "dollars", number.value * 100
    if number is None or len(quantity.unit) != 1 or quantity.unit[0][1] != 1:
        return None
    kind, size = _SIZES.get(quantity.unit[0][0], ("", 0))
    return (kind, number.value * size) if size else None

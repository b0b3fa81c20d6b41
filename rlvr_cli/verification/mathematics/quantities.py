"""Whether two values are equal, with percent signs, degrees and units."""

import re
from fractions import Fraction

from rlvr_cli.verification.mathematics import expressions, numerals, plain, symbolic, units
from rlvr_cli.verification.mathematics.options import Options


def equal(gold: str, answer: str, options: Options) -> bool:
    """Whether two values are equal, with percent signs, degrees and units."""
    if options.degrees == "strict" and _has_degrees(gold) != _has_degrees(answer):
        return False
    gold, answer = _angles(gold, answer)
    (gold, in_percent), (answer, as_percent) = map(plain.without_percent, (gold, answer))
    left, right = units.split(gold), units.split(answer)
    if bool(left.unit) != bool(right.unit):
        left, right = units.in_letters(gold, left, right), units.in_letters(answer, right, left)
    factor = Fraction(1)
    both = left.unit and right.unit
    if not units.same(left, right) and (options.units == "strict" or both):
        ratio = units.ratio(right, left) if options.units == "convert" else None
        if ratio is None:
            return False
        factor = ratio
    scales = [Fraction(1)]
    if in_percent != as_percent:
        hundredth = Fraction(1, 100) if in_percent else Fraction(100)
        is_strict = options.percent == "strict" or (as_percent and _is_share(gold))
        scales = [hundredth] if is_strict else [Fraction(1), hundredth]
    return any(
        _equal_values(left.number, right.number, scale / factor, options) for scale in scales
    )


def _is_share(gold: str) -> bool:
    """Whether a gold without a percent sign is a part of 1, so that 0.25 is not 0.25%."""
    number = numerals.number(plain.unwrapped(gold))
    return number is not None and abs(number.value) < 1 and number.value != 0


def _has_degrees(text: str) -> bool:
    return plain.without_degrees(text) != text


TRIGONOMETRY = re.compile(r"(?<!arc)(?:sin|cos|tan|cot|sec|csc|cis)(?![a-z])(?!\s*\^\s*\{?\s*-)")


_RADIANS = re.compile(
    r"\\pi(?![a-zA-Z])|arc(?:sin|cos|tan)|(?:sin|cos|tan)\s*\^\s*\{?\s*-\s*1|\b(?:rad|radians?)\b"
)


def _angles(gold: str, answer: str) -> tuple[str, str]:
    """The two with degrees as numbers where they are in a function or compared with radians."""
    is_degrees = _has_degrees(gold), _has_degrees(answer)
    if not any(is_degrees):
        return gold, answer
    one_is_radians = is_degrees[0] != is_degrees[1] and bool(_RADIANS.search(f"{gold} {answer}"))
    left, right = (
        plain.in_radians(text)
        if one_is_radians or TRIGONOMETRY.search(text)
        else plain.without_degrees(text)
        for text in (gold, answer)
    )
    return left, right


def _equal_values(gold: str, answer: str, scale: Fraction, options: Options) -> bool:
    """Whether gold * scale is the answer; only numbers may have a scale other than 1."""
    exact_integers = options.integers == "strict"
    left, right = (numerals.number(plain.unwrapped(text)) for text in (gold, answer))
    if left is not None and right is not None:
        value = left.value * scale
        if left.is_decimal or right.is_decimal:
            if exact_integers and not left.is_decimal and value.denominator == 1:
                return value == right.value
            room = Fraction(options.tolerance) * max(abs(value), abs(right.value))
            return abs(value - right.value) <= room
        return value == right.value
    if scale != 1:
        return False
    gold, answer = (
        _plain_number(read) if read else text for read, text in ((left, gold), (right, answer))
    )
    if plain.squeezed(gold) == plain.squeezed(answer):
        return True
    decided = expressions.equal(gold, answer, options.tolerance, exact_integers=exact_integers)
    if decided is None:
        decided = symbolic.equal(gold, answer, options)
    return bool(decided)


def _plain_number(number: numerals.Number) -> str:
    """A number as arithmetic reads it; a decimal stays one."""
    value = number.value
    sign = "-" if value < 0 else ""
    if number.is_decimal:
        return f"{sign}\\frac{{{abs(value.numerator)}.0}}{{{value.denominator}}}"
    if value.denominator == 1:
        return str(value)
    return f"{sign}\\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"

"""What is left to math-verify and sympy, which are imported when first needed."""

import functools
import logging
import math
import re
from typing import Any

from rlvr_cli.verification.mathematics import plain
from rlvr_cli.verification.mathematics.options import Options

_WORD = re.compile(r"(?<![a-zA-Z\\])[a-zA-Z]{4,}(?![a-zA-Z])")
_NAMES = re.compile(r"\\(?:begin|end|operatorname)\s*\{[a-zA-Z*]+\}")
_TEXT = re.compile(r"\\(?:text|mbox|textbf|textrm)\s*\{[^{}]*[a-zA-Z]{2,}[^{}]*\}")
_SPACED = re.compile(r"[0-9] [0-9]|(?<![\^_0-9.{])[0-9]+\s*\\[dtc]?frac\s*\{?[0-9]+\}?\s*\{?[0-9]")


# Of these math-verify drops what distinguishes two texts.
_OPAQUE = re.compile(
    r"\\(?:partial|nabla|land|lor|wedge|vee|lnot|neg|mod|pmod|approx|sim)(?![a-zA-Z])"
)

_DERIVATIVE = re.compile(r"frac\s*\{\s*d(?:\^\{?\d\}?)?\s*[a-zA-Z]\s*\}\s*\{\s*d\s*[a-zA-Z]")

_INDEX = re.compile(r"\\(?:sum|prod)\s*(?:\\limits\s*)?_\s*\{\s*i\s*=")
_I = re.compile(r"(?<![a-zA-Z\\])i(?![a-zA-Z])")

_MOST_BRACKETS = 80


def _with_index(text: str) -> str:
    """A text whose sums count by `i` with another letter for it, as `i` is the imaginary unit."""
    if not _INDEX.search(text):
        return text
    free = next((letter for letter in "jpqrstuvw" if letter not in text), "i")
    return _I.sub(free, text)


def _is_closed(text: str) -> bool:
    """Whether as many brackets close as open; a half-open interval mixes two kinds."""
    return sum(map(text.count, "([{")) == sum(map(text.count, ")]}"))


@functools.lru_cache(maxsize=2048)
def parsed(text: str) -> Any:
    """The expression that math-verify reads in the full text; None if it reads none."""
    from latex2sympy2_extended.math_normalization import NormalizationConfig
    from math_verify import LatexExtractionConfig, parse

    if _WORD.search(_NAMES.sub("", text)) or _TEXT.search(text) or _SPACED.search(text):
        return None  # it would multiply letters and join digits
    if sum(map(text.count, "([{")) > _MOST_BRACKETS or not _is_closed(text):
        return None  # its grammar takes minutes
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    config = LatexExtractionConfig(
        boxed_match_priority=0,
        normalization_config=NormalizationConfig(
            basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="last"
        ),
    )
    expressions = parse(
        f"\\boxed{{{_with_index(text)}}}",
        extraction_config=[config],
        fallback_mode="no_fallback",
        extraction_mode="first_match",
        parsing_timeout=None,
        raise_on_error=True,
    )
    value = expressions[0] if expressions and not isinstance(expressions[0], str) else None
    return None if value is None or _is_undefined(value) else value


@functools.lru_cache(maxsize=256)
def parsed_raw(text: str) -> tuple[Any, ...]:
    """The expression that math-verify reads in a text without marks."""
    from math_verify import parse

    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    return tuple(parse(text, parsing_timeout=None, raise_on_error=True))


def equal(gold: str, answer: str, options: Options) -> bool | None:
    """Whether math-verify takes the two for equal; None if it does not read one of them."""
    if "\\neq" in gold and "\\neq" in answer:  # it knows no inverse of this relation
        gold, answer = gold.replace("\\neq", "="), answer.replace("\\neq", "=")
    if _OPAQUE.search(gold) or _OPAQUE.search(answer) or _DERIVATIVE.search(gold):
        return None
    left = parsed(gold)
    right = parsed(answer) if left is not None else None
    if left is None or right is None:
        return None
    return _verified([left], [right], options)


def equal_raw(gold: str, text: str, options: Options) -> bool:
    """Whether what math-verify finds in a text is the gold."""
    left = parsed(plain.without_money(gold))
    right = parsed_raw(text)
    return left is not None and bool(right) and _verified([left], list(right), options)


def _verified(left: list[Any], right: list[Any], options: Options) -> bool:
    from math_verify import verify

    if _is_undefined(right[0]):
        return False
    same = verify(
        gold=left,
        target=right,
        float_rounding=round(-math.log10(max(options.tolerance, 1e-12))),
        allow_set_relation_comp=options.intervals == "lenient",
        timeout_seconds=None,
        raise_on_error=True,
    )
    return same and not _differ_exactly(left[0], right[0], options)


def _differ_exactly(left: Any, right: Any, options: Options) -> bool:
    """Whether two numbers that rounding makes equal are not; False for all that is no number."""
    from sympy import Basic, Float

    if not all(isinstance(side, Basic) and side.is_number for side in (left, right)):
        return False
    left, right = left.doit(), right.doit()
    if left.is_rational and right.is_rational and not left.has(Float) and not right.has(Float):
        return bool(left != right)
    if left.is_infinite or right.is_infinite:
        return bool(left != right)
    size = max(abs(left.evalf(30)), abs(right.evalf(30)))
    has_decimal = left.has(Float) or right.has(Float)
    is_exact = left.is_Integer and options.integers == "strict"
    room = options.tolerance if has_decimal and not is_exact else 1e-12
    return bool(abs((left - right).evalf(30)) > room * size)


def _is_undefined(value: Any) -> bool:
    """Whether something was divided by 0, as in 12:00, which sympy turns into one infinity."""
    from sympy import Basic, nan, zoo

    return isinstance(value, Basic) and value.has(nan, zoo)

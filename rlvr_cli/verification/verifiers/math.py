r"""Whether the answer of a text equals the gold: exactly for numbers, else by math-verify.

What is read: the last balanced `\boxed{}` or `\fbox{}`, else what follows `####`, `A:` or
"the answer is".
"""

import functools
import importlib.metadata
import logging
import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from rlvr_cli.protocols import Equality, Isolated, Limits, Verdict
from rlvr_cli.verification.parsing import boxed, plain

Choice = Literal["lenient", "strict"]

_LIBRARIES = ("math-verify", "latex2sympy2_extended", "sympy")
_LOGIC = "2"  # raised with each change of what this file or `answers` decides


@dataclass(frozen=True)
class _Options:
    percent: Choice
    units: Choice
    base: Choice
    degrees: Choice
    intervals: Choice
    sets: Choice
    matrices: Choice
    equations: Choice
    tolerance: float
    max_length: int
    unanchored: bool


def build(
    *,
    unanchored: bool = False,
    unfinished: bool = False,
    percent: Choice = "lenient",
    units: Choice = "lenient",
    base: Choice = "strict",
    degrees: Choice = "lenient",
    intervals: Choice = "lenient",
    sets: Choice = "lenient",
    matrices: Choice = "lenient",
    equations: Choice = "lenient",
    tolerance: float = 1e-6,
    max_length: int = 1000,
    timeout_s: float = 3.0,
    memory_mib: int = 2048,
) -> Isolated:
    """The verifier of mathematics; docs/verifiers.md has a table of what each option decides.

    Nothing is read from a text that was cut off (`unfinished`) or that marks no answer
    (`unanchored`), unless asked. An answer of more than `max_length` characters is none.
    `tolerance` is relative, and counts only where a side is a decimal.
    """
    if not 0 <= tolerance < 1:
        raise ValueError("tolerance must be from 0 to below 1")
    if min(max_length, timeout_s, memory_mib) <= 0:
        raise ValueError("max_length, timeout_s and memory_mib must be above 0")
    options = _Options(
        percent, units, base, degrees, intervals, sets, matrices, equations,
        tolerance, max_length, unanchored,
    )  # fmt: skip

    def extract(completion: str, finished: bool) -> str | None:
        return _extract(completion, options) if finished or unfinished else None

    def judge(extracted: str | None, answer: str, extra: dict[str, Any]) -> Verdict:
        return _judge(extracted, answer, options)

    return Isolated(
        extract=extract,
        judge=judge,
        limits=Limits(timeout_s, memory_mib << 20),
        version=_version(),
        imports=("rlvr_cli.verification.verifiers.math", "rlvr_cli.verification.parsing.warm"),
    )


def _stated(answer: str) -> str:
    """A completion that gives this answer; an empty one if its braces do not match."""
    text = f"\\boxed{{{answer}}}"
    return text if boxed.last_box(text) == (boxed.last_box(answer) or answer) else ""


EQUALITY: Equality = _stated


@functools.cache
def _version() -> str:
    return " ".join([_LOGIC, *(f"{n} {importlib.metadata.version(n)}" for n in _LIBRARIES)])


def _extract(completion: str, options: _Options) -> str | None:
    """What a completion marks as its answer; its end if nothing is marked and that is allowed."""
    marked = boxed.anchored(completion)
    if marked is None:
        return boxed.tail(completion) if options.unanchored else None
    if len(marked) > options.max_length:
        return None
    return f"\\boxed{{{marked}}}" if options.unanchored else marked


def _judge(extracted: str | None, answer: str, options: _Options) -> Verdict:
    gold = boxed.anchored(answer) or answer
    reason = _fault_of(gold, options)
    if reason:
        return Verdict("bad_gold", reason=reason)
    if extracted is None:
        return Verdict("no_answer", reward=0.0, correct=False)
    box = boxed.last_box(extracted) if options.unanchored else extracted
    text = extracted if box is None else box
    clean = plain.clean(gold)
    correct = len(text) <= options.max_length and _equal(
        gold=clean, answer=plain.clean(text), options=options
    )
    if box is None and not correct:
        correct = _equal_symbolic(_bare(clean, options), extracted, options, raw=True)
    return Verdict("ok", float(correct), correct, text)


@functools.lru_cache(maxsize=1024)
def _fault_of(gold: str, options: _Options) -> str | None:
    """Why a gold cannot be matched by any answer, None if it can be."""
    text = plain.clean(gold)
    if not text:
        return "it is empty"
    if len(text) > options.max_length:
        return f"it has {len(text)} characters, more than max_length={options.max_length}"
    if not _stated(gold):
        return "its braces do not match"
    if plain.number(text) is not None or plain.in_base(text) or _is_words(text):
        return None
    parsed = _parsed(_bare(text, options))
    return None if any(not isinstance(p, str) for p in parsed) else "math-verify cannot parse it"


def _is_words(text: str) -> bool:
    return all(c.isalpha() or c in " ,.'-()" for c in plain.unwrapped(text))


def _bare(text: str, options: _Options) -> str:
    """The text without what the lenient options overlook."""
    text = plain.without_money(text)
    if options.percent == "lenient":
        text = plain.without_percent(text)[0]
    if options.degrees == "lenient":
        text = plain.without_degrees(text)
    return plain.split_unit(text)[0] if options.units == "lenient" else text


def _equal(*, gold: str, answer: str, options: _Options) -> bool:
    """Whether an answer is the gold's; decided from the text alone where it can be."""
    if gold.replace(" ", "") == answer.replace(" ", ""):
        return True
    gold, answer = plain.without_money(gold), plain.without_money(answer)
    base = _equal_in_base(gold, answer, options)
    if base is not None:
        return base
    if options.degrees == "strict" and _has_degrees(gold) != _has_degrees(answer):
        return False
    gold, answer = plain.without_degrees(gold), plain.without_degrees(answer)
    (gold, in_percent), (answer, as_percent) = map(plain.without_percent, (gold, answer))
    (gold, unit), (answer, other) = map(plain.split_unit, (gold, answer))
    if unit != other and (options.units == "strict" or (unit and other)):
        return False
    words, others = plain.unwrapped(gold).casefold(), plain.unwrapped(answer).casefold()
    if words.strip("()") == others.strip("()") != "":
        return in_percent == as_percent or options.percent == "lenient"
    if "\\text" in gold + answer and _is_words(gold) and _is_words(answer):
        return False  # math-verify would multiply their letters
    scales = [Fraction(1)]
    if in_percent != as_percent:
        hundredth = Fraction(1, 100) if in_percent else Fraction(100)
        scales = [hundredth] if options.percent == "strict" else [Fraction(1), hundredth]
    return any(_equal_scaled(gold, answer, scale, options) for scale in scales)


def _has_degrees(text: str) -> bool:
    return plain.without_degrees(text) != text


def _equal_in_base(gold: str, answer: str, options: _Options) -> bool | None:
    """Whether two numerals are the same, if one of them says its base; None if none does."""
    numerals = [plain.in_base(gold), plain.in_base(answer)]
    if not any(numerals):
        return None
    if all(numerals):
        return numerals[0] == numerals[1]
    numeral = numerals[0] or numerals[1]
    assert numeral
    bare = (answer if numerals[0] else gold).replace(" ", "").upper().lstrip("0")
    if not bare.isalnum():
        return None
    return options.base == "lenient" and bare == numeral[0]


def _equal_scaled(gold: str, answer: str, scale: Fraction, options: _Options) -> bool:
    """Whether gold * scale is the answer; a scale other than 1 is asked of numbers alone."""
    left, right = plain.number(gold), plain.number(answer)
    if left is not None and right is not None:
        value = left.value * scale
        if left.is_decimal or right.is_decimal:
            room = Fraction(options.tolerance) * max(abs(value), abs(right.value))
            return abs(value - right.value) <= room
        return value == right.value
    if scale != 1:
        return False
    return _equal_symbolic(gold, answer, options)


@functools.lru_cache(maxsize=1024)
def _parsed(text: str, *, raw: bool = False) -> tuple[Any, ...]:
    """What math-verify reads: sympy's expressions followed by the text that it took."""
    from math_verify import parse

    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    # Without a box a fraction may parse to nothing, and an equation to its last number.
    source = text if raw else f"\\boxed{{{text}}}"
    return tuple(parse(source, parsing_timeout=None, raise_on_error=True))


def _equal_symbolic(gold: str, answer: str, options: _Options, *, raw: bool = False) -> bool:
    """Whether math-verify takes the two for equal; `raw` is an answer with text around it."""
    from math_verify import verify

    if "\\neq" in gold and "\\neq" in answer:  # it knows no inverse of this relation
        gold, answer = gold.replace("\\neq", "="), answer.replace("\\neq", "=")
    left, right = _parsed(gold), _parsed(answer, raw=raw)
    if not left or not right:
        return False
    if _is_undefined(left[0]) or _is_undefined(right[0]):
        return False
    if options.matrices == "strict" and _brackets(gold) != _brackets(answer):
        return False
    if options.equations == "strict" and _sides(gold) != _sides(answer):
        return False
    if options.sets == "strict" and _is_braced(gold) != _is_braced(answer):
        return False
    if options.intervals == "strict" and _is_relation(gold) != _is_relation(answer):
        return False
    same = verify(
        gold=list(left),
        target=list(right),
        float_rounding=round(-math.log10(max(options.tolerance, 1e-12))),
        allow_set_relation_comp=options.intervals == "lenient",
        timeout_seconds=None,
        raise_on_error=True,
    )
    return same and not _differ_exactly(left[0], right[0], options.tolerance)


def _differ_exactly(left: Any, right: Any, tolerance: float) -> bool:
    """Whether two numbers that rounding makes equal are not; False for all that is no number."""
    from sympy import Basic, Float

    if not all(isinstance(side, Basic) and side.is_number for side in (left, right)):
        return False
    left, right = left.doit(), right.doit()
    if left.is_rational and right.is_rational and not left.has(Float) and not right.has(Float):
        return bool(left != right)
    size = max(abs(left.evalf(30)), abs(right.evalf(30)))
    room = tolerance if left.has(Float) or right.has(Float) else 1e-12
    return bool(abs((left - right).evalf(30)) > room * size)


def _is_undefined(value: Any) -> bool:
    """Whether something was divided by 0, as in 12:00, of which sympy makes one infinity."""
    from sympy import Basic, nan, zoo

    return isinstance(value, Basic) and value.has(nan, zoo)


def _brackets(text: str) -> list[str]:
    return re.findall(r"\\begin\{(\w*matrix)\}", text)


def _sides(text: str) -> int:
    """How many equals signs a text has that are no part of another sign."""
    return len(re.findall(r"(?<![\\<>!])=", text))


def _is_braced(text: str) -> bool:
    return text.startswith("\\{")


def _is_relation(text: str) -> bool:
    return bool(re.search(r"[<>]|\\(?:le|ge|leq|geq|lt|gt|leqslant|geqslant)(?![a-zA-Z])", text))

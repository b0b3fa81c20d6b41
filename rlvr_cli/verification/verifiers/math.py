r"""Whether the answer of a text equals the gold: by its shape, exact values, or math-verify.

What is read: the boxes `\boxed{}` or `\fbox{}` of the last sentence that has one, else `<answer>`,
else what follows `####`, `A:` or "the answer is", in English or another language.
"""

import functools
import importlib.metadata
from typing import Any

from rlvr_cli.protocols import Equality, Isolated, Limits, Verdict
from rlvr_cli.verification.mathematics import (
    clocks,
    comparing,
    plain,
    readable,
    symbolic,
    units as measures,
)
from rlvr_cli.verification.mathematics.options import Choice, Options, Units
from rlvr_cli.verification.parsing import boxed

VERSION = 2
EARLIER = {"integers": "lenient"}

_LIBRARIES = ("math-verify", "latex2sympy2_extended", "sympy")
_LOGIC = "14"  # raised with each change of what this file or `mathematics` decides

# Few questions need sympy: a worker imports it for its first, unless the limit is too short for it.
_OWN, _SYMPY = ("rlvr_cli.verification.verifiers.math",), ("rlvr_cli.verification.parsing.warm",)
_IMPORT_S = 2.5


def build(
    *,
    unanchored: bool = False,
    unfinished: bool = False,
    percent: Choice = "lenient",
    units: Units = "lenient",
    base: Choice = "strict",
    degrees: Choice = "lenient",
    intervals: Choice = "lenient",
    sets: Choice = "lenient",
    matrices: Choice = "lenient",
    equations: Choice = "lenient",
    integers: Choice = "strict",
    tolerance: float = 1e-6,
    max_length: int = 1000,
    timeout_s: float = 3.0,
    memory_mib: int = 2048,
) -> Isolated:
    """The verifier of mathematics; docs/verifiers/math.md has a table of what each option decides.

    Nothing is read from a text that was cut off (`unfinished`) or that marks no answer
    (`unanchored`) by default. An answer of more than `max_length` characters is none.
    `tolerance` is relative, and counts only where a side is a decimal and the gold no integer.
    """
    if not 0 <= tolerance < 1:
        raise ValueError("tolerance must be from 0 to below 1")
    if min(max_length, timeout_s, memory_mib) <= 0:
        raise ValueError("max_length, timeout_s and memory_mib must be above 0")
    if units == "convert":
        measures.check_pint()
    options = Options(
        percent, units, base, degrees, intervals, sets, matrices, equations, integers,
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
        version=_version(units),
        imports=_OWN if timeout_s > _IMPORT_S else _OWN + _SYMPY,
        late_imports=_SYMPY,
    )


def _stated(answer: str) -> str:
    """A completion that gives this answer; an empty one if its braces do not match."""
    text = f"\\boxed{{{answer}}}"
    return text if boxed.last_box(text) == (boxed.last_box(answer) or answer) else ""


EQUALITY: Equality = _stated


@functools.cache
def _version(units: Units) -> str:
    libraries = (*_LIBRARIES, "pint") if units == "convert" else _LIBRARIES
    return " ".join([_LOGIC, *(f"{n} {importlib.metadata.version(n)}" for n in libraries)])


def _extract(completion: str, options: Options) -> str | None:
    """What a completion marks as its answer; its end if nothing is marked and that is allowed."""
    marked = boxed.anchored(completion)
    if marked is None:
        return boxed.tail(completion) if options.unanchored else None
    marked = marked[: options.max_length + 1]
    return f"\\boxed{{{marked}}}" if options.unanchored else marked


def _judge(extracted: str | None, answer: str, options: Options) -> Verdict:
    gold, fault = _gold(answer, options)
    if fault:
        return Verdict("bad_gold", reason=fault)
    if extracted is None:
        return _no_answer("it marks no answer, or was cut off before one")
    box = boxed.last_box(extracted) if options.unanchored else extracted
    text = extracted if box is None else box
    if box is not None and len(text) > options.max_length:
        return _no_answer(f"its answer has more than max_length={options.max_length} characters")
    given = plain.clean(text)
    correct = len(text) <= options.max_length and comparing.equal(gold, given, options)
    if box is None and not correct:
        correct = symbolic.equal_raw(gold, extracted, options)
    elif not correct and not readable.is_readable(given, options):
        return Verdict("no_answer", 0.0, False, text, reason="its shape is not read")
    return Verdict("ok", float(correct), correct, text)


def _no_answer(reason: str) -> Verdict:
    return Verdict("no_answer", reward=0.0, correct=False, reason=reason)


@functools.lru_cache(maxsize=1024)
def _gold(answer: str, options: Options) -> tuple[str, str | None]:
    """The gold, cleaned, and why no answer can match it; None if one can."""
    gold = boxed.anchored(answer) or answer
    text = plain.clean(gold)
    if not text:
        return text, "it is empty"
    if clocks.MANGLED.search(gold):
        return text, f"it is a time of day that has lost letters: {gold[:80]}"
    if len(text) > options.max_length:
        fault = f"it has {len(text)} characters, more than max_length={options.max_length}"
        return text, fault
    if not _stated(gold.rstrip("\\ ")):
        return text, "its braces do not match"
    if not readable.is_readable(text, options):
        return text, f"its shape is not read: {text[:80]}"
    return text, None

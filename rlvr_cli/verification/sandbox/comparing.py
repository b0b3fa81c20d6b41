"""Whether what a program wrote or returned is what its tests expect.

It runs inside the sandbox and imports only the standard library.
"""

import math
import re
from typing import Any

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_DIGITS = re.compile(r"-?\d+")
_LONGEST = 400  # characters of a number that is compared as one


def same_output(output: str, wanted: str, tolerance: float, *, by_line: bool) -> bool:
    """Whether two texts have the same words, as judges compare them; numbers by their value.

    White space at the end of a line and empty lines never count; how words are put into lines
    counts with `by_line`.
    """
    if not by_line:
        return _same_words(output.split(), wanted.split(), tolerance)
    lines = [[line.split() for line in text.splitlines() if line.strip()]
             for text in (output, wanted)]  # fmt: skip
    return len(lines[0]) == len(lines[1]) and all(
        _same_words(mine, its, tolerance) for mine, its in zip(*lines, strict=True)
    )


def _same_words(words: list[str], wanted: list[str], tolerance: float) -> bool:
    if words == wanted:
        return True
    return len(words) == len(wanted) and all(
        mine == its or _same_number(mine, its, tolerance)
        for mine, its in zip(words, wanted, strict=True)
    )


def _same_number(word: str, wanted: str, tolerance: float) -> bool:
    """Whether two words are the same number; one that is written as an integer is exact."""
    if max(len(word), len(wanted)) > _LONGEST:
        return False
    if not _NUMBER.fullmatch(word) or not _NUMBER.fullmatch(wanted):
        return False
    exact = _DIGITS.fullmatch(wanted.lstrip("+")) is not None
    if exact and _DIGITS.fullmatch(word.lstrip("+")):
        return False  # two integers that are written differently, as 007 and 7, or differ
    try:
        mine, its = float(word), float(wanted)
    except (ValueError, OverflowError):
        return False
    if exact:
        return mine == its and abs(its) < 2**53
    return near(mine, its, tolerance)


def near(value: float, wanted: float, tolerance: float) -> bool:
    """Whether a number differs by no more than the tolerance, times its size where that is above 1.

    Of numbers that are not finite only the same are near, and nan is near to nan.
    """
    if value == wanted or (math.isnan(value) and math.isnan(wanted)):
        return True
    if not (math.isfinite(value) and math.isfinite(wanted)):
        return False
    return abs(value - wanted) <= tolerance * max(1.0, abs(wanted))


def same_value(value: Any, wanted: Any, tolerance: float) -> bool:
    """Whether a function returned what JSON says it must.

    A tuple is as good as a list, which JSON has alone, and a number as a key as its text. A number
    with a point may differ by the tolerance; an integer is exact.
    """
    if isinstance(wanted, list):
        return (
            isinstance(value, list | tuple)
            and len(value) == len(wanted)
            and all(same_value(v, w, tolerance) for v, w in zip(value, wanted, strict=True))
        )
    if isinstance(wanted, dict):
        if not isinstance(value, dict) or len(value) != len(wanted):
            return False
        by_text = {str(key): item for key, item in value.items()}
        return len(by_text) == len(value) and all(
            str(key) in by_text and same_value(by_text[str(key)], item, tolerance)
            for key, item in wanted.items()
        )
    if isinstance(wanted, float) and type(value) in (int, float):
        try:
            return near(float(value), wanted, tolerance)
        except OverflowError:
            return False
    return type(value) in (
        bool,
        int,
        float,
        str,
        type(None),
        bytes,
        set,
        frozenset,
        complex,
    ) and bool(value == wanted)


def arguments(given: Any, *, has_text_keys: bool) -> Any:
    """The arguments of a call: where JSON made text of the numbers that are keys, numbers again."""
    if has_text_keys and isinstance(given, list):
        return [_numbered(value) for value in given]
    return given


def _numbered(value: Any) -> Any:
    if isinstance(value, dict) and value and all(_DIGITS.fullmatch(str(key)) for key in value):
        return {int(key): item for key, item in value.items()}
    return value

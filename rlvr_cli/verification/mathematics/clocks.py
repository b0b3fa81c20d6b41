r"""Times of day, dates, ratios, remainders: `4:30 p.m.`, `2024-01-05`, `1:2:3`, `5 \pmod 7`."""

import re
from fractions import Fraction

from rlvr_cli.verification.mathematics import congruences, expressions, plain, shapes
from rlvr_cli.verification.mathematics.matching import Again
from rlvr_cli.verification.mathematics.options import Options

_HALF = r"(?:\\(?:text|mathrm)\s*\{)?\s*(?:([ap])\.?\s*(m?)\.?)?\s*\}?"
CLOCK = re.compile(
    rf"(?:\\text\s*\{{)?\s*([0-9]{{1,2}}):([0-9]{{2}})(?::([0-9]{{2}}))?\s*{_HALF}",
    re.IGNORECASE,
)
_HOUR = re.compile(
    r"(?:\\text\s*\{)?\s*([0-9]{1,2})()()\s*(?:\\(?:text|mathrm)\s*\{)?\s*([ap])\.?\s*(m)\.?\s*\}?",
    re.IGNORECASE,
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_RATIO = re.compile(r"[0-9.]+(?:\s*:\s*[0-9.]+){2,}")
_REMAINDER = re.compile(
    r"([0-9]+)\s*(?:,\s*)?(?:\\(?:text|mathrm)\s*\{\s*,?\s*(?:R|r|remainder)\.?\s*\}|\s(?:R|r|remainder)\s)\s*([0-9]+)"
)
_COLON = re.compile(r"\s*:\s*")
_MIDDLE = re.compile(
    r"(?:\\text\s*\{\s*)?(?:12(?::00)?\s*(?:[ap]\.?m\.?)?\s*(?:\\text\s*\{)?\s*)?\(?"
    r"(noon|midnight|midday)\)?\s*\}*",
    re.IGNORECASE,
)
MANGLED = re.compile(r"[0-9]\s*[ap]\s*\.\s*\.\s*\$?\s*$")  # of `4:30 p.m.` without its m


def equal(gold: str, answer: str) -> bool | None:
    """Whether two of one of these kinds are the same; None if they are none."""
    gold, answer = _middle(gold), _middle(answer)
    for decide in (_equal_dates, _equal_remainders, _equal_ratios, _equal_times, congruences.equal):
        decided = decide(gold, answer)
        if decided is not None:
            return decided
    return None


def _middle(text: str) -> str:
    """Noon and midnight as clocks show them; any other text as it is."""
    match = _MIDDLE.fullmatch(text)
    return text if not match else "12:00 a.m." if match[1].lower() == "midnight" else "12:00 p.m."


def is_one(text: str) -> bool:
    """Whether a text is one of these, which no other reader needs to read."""
    kinds = (_MIDDLE, _REMAINDER, CLOCK, _HOUR, _RATIO)
    return any(kind.fullmatch(text) for kind in kinds) or congruences.read(text) is not None


def _equal_dates(gold: str, answer: str) -> bool | None:
    gold, answer = (plain.unwrapped(text).replace(" ", "") for text in (gold, answer))
    if not _DATE.fullmatch(gold) and not _DATE.fullmatch(answer):
        return None
    return gold == answer


def _equal_remainders(gold: str, answer: str) -> bool | None:
    """Whether quotients with remainders are the same: `3 R 2` is `3 remainder 2`."""
    matches = [_REMAINDER.fullmatch(text) for text in (gold, answer)]
    if not all(matches):
        return False if any(matches) else None
    left, right = (match.groups() for match in matches if match)
    return left == right


def _equal_ratios(gold: str, answer: str) -> bool | None:
    if not _RATIO.fullmatch(gold) or not _RATIO.fullmatch(answer):
        return None
    try:
        left, right = ([Fraction(part.strip()) for part in t.split(":")] for t in (gold, answer))
    except ValueError:
        return None
    if len(left) != len(right):
        return False
    return all(a * right[0] == b * left[0] for a, b in zip(left, right, strict=True))


def equal_ratios(gold: str, answer: str, options: Options, again: Again) -> bool | None:
    r"""Whether two ratios of expressions are the same: `1:\sqrt3:2`; None if none is one."""
    sides = [shapes.parted(text, _COLON) for text in (gold, answer)]
    are_ratios = [len(s) > 1 and all(map(expressions.is_read, s)) for s in sides]
    if not all(are_ratios):
        return None
    left, right = sides
    return len(left) == len(right) and all(
        again(rf"({a})\cdot ({right[0]})", rf"({b})\cdot ({left[0]})")
        for a, b in zip(left[1:], right[1:], strict=True)
    )


def _equal_times(gold: str, answer: str) -> bool | None:
    """Whether two times of day, or ratios that look alike, are the same."""
    times = [CLOCK.fullmatch(text) or _HOUR.fullmatch(text) for text in (gold, answer)]
    if not times[0] or not times[1]:
        return None
    (hour, minute, second, half, _), (hour2, minute2, second2, half2, _) = (
        time.groups("") for time in times if time
    )
    hours = int(hour), int(hour2)
    if bool(half) == bool(half2) or max(hours) > 12 or min(hours) == 0:
        hours = _of_day(hours[0], half), _of_day(hours[1], half2)
    return hours[0] == hours[1] and (int(minute or 0), int(second or 0)) == (
        int(minute2 or 0),
        int(second2 or 0),
    )


def _of_day(hour: int, half: str) -> int:
    """The hour from 0 to 23; without a half of the day it is as written."""
    if not half or hour > 12:
        return hour
    return hour % 12 + 12 * (half.lower() == "p")

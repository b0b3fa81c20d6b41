r"""The grade that a judge's reply gives: a number of its scale, or why it gives none.

A grade must be marked. The first of these kinds that the text has counts, and of it the last one:

1. a line such as `Final score: 7/10`, `<score>7</score>`, a JSON object such as `{"score": 7}`
2. `\boxed{7}`, `[[7]]`, which may also restate an answer that was judged
3. a first or last line that is only a number or a word
4. a line such as `Answer: yes`, with a single word

A number in running text is not a grade.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Way = Literal["any", "label", "json", "boxed", "alone"]
HIGH, LOW = "yes correct true right pass met", "no incorrect false wrong fail unmet"
_WORDS = dict.fromkeys(HIGH.split(), True) | dict.fromkeys(LOW.split(), False)

_READ = 100_000  # characters at the end of a reply that are read
_NAMES = (
    "score|rating|grade|reward|verdict|decision|judge?ment|correct|is_correct|correctness|"
    "criteria_met|met"
)
_VAGUE = "answer|response|result|assessment|evaluation|conclusion"
_NUMBER = r"[-+]?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
_MARKS = r"[\s*_`#>\"'\[\](<{$]*"  # of Markdown, quotes and brackets around a grade
_CLOSING = r"[*_`\"'\])>}$]*"
_LINE, _VAGUE_LINE = (
    re.compile(
        rf"^[ \t]*[-*#>_` \t{{\"']*(?:\d+[.)][ \t]+)?"
        rf"(?:(?:so|therefore|thus|the|my|your|final|overall|total),?[ \t]+)*"
        rf"(?:{names})(?:[ \t]*[(\[][^()\[\]\n]{{1,30}}[)\]])?[*_`\"' \t]*"
        r"(?:[:=：]|[ \t]is\b:?)[*_`]*[ \t]*(?:\n\s*)?(?P<value>.*)$",
        re.IGNORECASE | re.MULTILINE,
    )
    for names in (_NAMES, _VAGUE)
)
_VALUE = re.compile(
    rf"^{_MARKS}(?:\\boxed\{{)?(?P<grade>{_NUMBER}|[A-Za-z]+(?:[ _-][A-Za-z]+)?)"
    rf"(?:\*\*|__)?(?P<of>\s*(?:%|\\%|/\s*{_NUMBER}|(?:out\s+)?of\s+{_NUMBER}))?{_CLOSING}"
    r"(?P<rest>\s*(?:$|[.;!](?:\s|$)|,(?:\s*$|\s+[^\s\d])|\(|[-–—]\s|:\s|points?\.?$).*)$",
    re.IGNORECASE,
)
_PAIRED = re.compile(r"<(score|rating|grade|verdict)>([^<]*)</\1>", re.IGNORECASE)
_DOUBLE = re.compile(r"\[\[([^\[\]]{1,40})\]\]")
_BOXED = re.compile(r"\\boxed\{(?:\\text\{)?([^{}]*)\}")
_FRACTION = re.compile(rf"^\s*(?:/|(?:out\s+)?of)\s*({_NUMBER})$", re.IGNORECASE)
_KEY = re.compile(rf"^(?:final_|overall_|total_)?(?:{_NAMES})$", re.IGNORECASE)


@dataclass(frozen=True)
class Scale:
    """What a judge's grades mean: numbers from `low` to `high`, and words, in any case."""

    low: float = 0.0
    high: float = 1.0
    words: Mapping[str, float] = field(default_factory=dict)  # in place of yes, no and the like

    def of_word(self, word: str) -> float | None:
        named = {key.casefold(): value for key, value in self.words.items()}
        key = word.casefold()
        if key in named or not named:
            known = _WORDS.get(key)
            return named.get(key, None if known is None else (self.high if known else self.low))
        return None

    def share(self, grade: float) -> float:
        """A grade as a reward from 0 to 1."""
        return (grade - self.low) / (self.high - self.low)


class NoGrade(Exception):
    """Why a reply gives no grade."""


def read(reply: str, scale: Scale, way: Way = "any") -> float:
    """The grade of a reply on its scale; NoGrade says why there is none."""
    text = reply.rpartition("</think>")[2][-_READ:]
    if "<think>" in text:
        raise NoGrade("the judge's thoughts do not end")
    if not text.strip():
        raise NoGrade("the judge's reply is empty")
    for candidates in _kinds(text, way):
        if grades := sorted(candidates, key=lambda pair: pair[0]):
            return _grade(grades[-1][1], scale)
    raise NoGrade("the judge's reply gives no grade")


def _kinds(text: str, way: Way) -> Iterator[list[tuple[int, Any]]]:
    """What marks a grade, each with the place where it ends; the best kind first."""
    marked: list[tuple[int, Any]] = []
    if way in ("any", "json"):
        marked += _objects(text)
    plain = _without_objects(text)
    if way in ("any", "label"):
        marked += [(m.end(), m[2]) for m in _PAIRED.finditer(plain)]
        marked += [(m.end(), m["value"]) for m in _LINE.finditer(plain)]
    yield marked
    if way in ("any", "boxed"):
        yield [(m.end(), m[1]) for p in (_BOXED, _DOUBLE) for m in p.finditer(plain)]
    if way in ("any", "alone"):
        lines = [line for line in plain.splitlines() if line.strip()] or [""]
        bare = [re.sub(rf"^{_MARKS}|[\s.!]*{_CLOSING}[\s.!]*$", "", line) for line in lines]
        yield [(at, bare[at]) for at in {0, len(bare) - 1} if _is_alone(bare[at])]
    if way in ("any", "label"):
        vague = [(m.end(), m["value"]) for m in _VAGUE_LINE.finditer(plain)]
        yield [(at, text) for at, text in vague if not re.search(r"\d", text)]


def _is_alone(text: str) -> bool:
    match = _VALUE.match(text)
    return match is not None and not match["rest"].strip() and " " not in match["grade"]


def _objects(text: str) -> Iterator[tuple[int, Any]]:
    """The grade of each JSON object of a text, of the first key that names one."""
    decoder, at = json.JSONDecoder(strict=False), text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at = text.find("{", at + 1)
            continue
        keys = [key for key in value if _KEY.match(key)]
        values = {json.dumps(value[key]) for key in keys}
        if len(values) == 1:
            yield end, value[keys[0]]
        elif values:
            grade = next((k for k in keys if k.casefold() in ("score", "rating", "grade")), None)
            yield end, value[grade] if grade else tuple(keys)
        at = text.find("{", end)


def _without_objects(text: str) -> str:
    """The text with JSON objects blanked, so that their keys are no labels of lines."""
    decoder, at, pieces, kept = json.JSONDecoder(strict=False), text.find("{"), [], 0
    while at >= 0:
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at = text.find("{", at + 1)
            continue
        pieces += [text[kept:at], re.sub(r"[^\n]", " ", text[at:end])]
        kept, at = end, text.find("{", end)
    return "".join([*pieces, text[kept:]])


def _grade(value: Any, scale: Scale) -> float:
    """What was marked as the grade, as a number of the scale."""
    if isinstance(value, tuple):
        raise NoGrade(f"the judge's JSON gives several grades: {', '.join(value)}")
    if isinstance(value, bool):
        return scale.high if value else scale.low
    if isinstance(value, int | float):
        return _within(float(str(value)), scale, str(value)[:60])
    shown = " ".join(str(value).split())[:60]
    match = _VALUE.match(str(value).strip()) if isinstance(value, str) else None
    if not match:
        raise NoGrade(f"the judge's grade `{shown}` is neither a number nor a word for one")
    text, of = match["grade"], (match["of"] or "").strip()
    if text[0].isalpha():
        grade = scale.of_word(text)
        if grade is None:  # of `Correct and complete`, the first word is no verdict
            raise NoGrade(f"the judge's grade `{shown}` is neither a number nor a word for one")
        return grade
    return _within(_number(text, of, scale, shown), scale, shown)


def _number(text: str, of: str, scale: Scale, shown: str) -> float:
    """A number that may be out of another one, or per cent."""
    number = float(text.replace(",", ""))
    if not of:
        return number
    out_of = 100.0 if "%" in of else float(_FRACTION.match(of)[1].replace(",", ""))  # type: ignore[index]
    if out_of == scale.high:
        return number
    if (scale.low, scale.high) == (0.0, 1.0) and out_of > 0:
        return number / out_of
    raise NoGrade(f"the judge's grade `{shown}` is out of {out_of:g}, not {scale.high:g}")


def _within(number: float, scale: Scale, shown: str) -> float:
    if not math.isfinite(number) or not scale.low <= number <= scale.high:
        raise NoGrade(f"the judge's grade `{shown}` is not from {scale.low:g} to {scale.high:g}")
    return number

"""Whether a text equals, contains or matches the gold, and how long it is.

`text:match=contains`, `text:match=regex`, `text:words=[50,100]`; all given conditions must hold.
"""

import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from rlvr_cli.protocols import Equality, Isolated, Limits, Verdict, Verifier
from rlvr_cli.verification.parsing import (
    sentences as sentence_ends,
    short_answer,
    short_golds,
)

EQUALITY: Equality = "text"

Range = tuple[int, int | None]

_LOGIC = "2"  # raised with each change of what this file decides
_STORED = 1000  # characters of a text
_MOST = 200_000  # characters of a text that a regular expression searches
_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
_MEASURES: dict[str, Callable[[str], int]] = {
    "words": lambda text: len(text.split()),
    "characters": len,
    "sentences": lambda text: len(sentence_ends.split(text)),
    "lines": lambda text: sum(1 for line in text.splitlines() if line.strip()),
    "paragraphs": lambda text: len(_PARAGRAPH.split(text)),
}
_MATCHES: dict[str, Callable[[str, str], bool]] = {
    "equal": lambda text, gold: text == gold,
    "contains": lambda text, gold: gold in text,
    "starts": lambda text, gold: text.startswith(gold),
    "ends": lambda text, gold: text.endswith(gold),
}


@dataclass(frozen=True)
class _Options:
    match: str  # a key of _MATCHES, `regex` or `none`
    golds: str
    is_case_ignored: bool
    is_space_one: bool
    lengths: dict[str, Range]


def build(
    *,
    match: Literal["auto", "equal", "contains", "starts", "ends", "regex", "none"] = "auto",
    golds: Literal["any", "all"] = "any",
    case: Literal["strict", "lenient"] = "strict",
    space: Literal["strict", "lenient"] = "lenient",
    reads: Literal["whole", "answer"] = "whole",
    words: Range | None = None,
    characters: Range | None = None,
    sentences: Range | None = None,
    lines: Range | None = None,
    paragraphs: Range | None = None,
    timeout_s: float = 2.0,
) -> Verifier | Isolated:
    """The verifier of texts.

    `match` compares the text with `answer`, a text or a JSON list of texts, of which any or all
    must match (`golds`). `regex` searches for a regular expression of Python, in a process that is
    killed after `timeout_s`. `auto` is `equal`, or `none` if a length is given: the gold is
    not read then. `case=lenient` ignores case, `space=lenient` takes runs of white space for one
    space. `reads=answer` takes a marked short answer, as `qa` does. A length is a range, as in
    `words=[50,100]` or `lines=[3,none]`.
    """
    given = {
        "words": words, "characters": characters, "sentences": sentences, "lines": lines,
        "paragraphs": paragraphs,
    }  # fmt: skip
    lengths = {name: bounds for name, bounds in given.items() if bounds is not None}
    for name, (least, most) in lengths.items():
        if least < 0 or (most is not None and most < least):
            raise ValueError(f"{name} must be a range that does not fall, as in {name}=[50,100]")
    if timeout_s <= 0:
        raise ValueError("timeout_s must be above 0")
    if match == "none" and not lengths:
        raise ValueError("match=none asks for nothing: give a length, as in words=[50,100]")
    if match == "auto":
        match = "none" if lengths else "equal"
    options = _Options(match, golds, case == "lenient", space == "lenient", lengths)

    def read(completion: str) -> tuple[str | None, str | None]:
        if reads == "answer":
            return short_answer.read(completion, 0)
        return (completion, None) if completion.strip() else (None, "it is empty")

    def verify(completion: str, *, answer: str, extra: dict[str, Any]) -> Verdict:
        text, reason = read(completion)
        return _judge(text, answer, options, reason)

    if match != "regex":
        return verify
    return Isolated(
        extract=lambda completion, finished: read(completion)[0],
        judge=lambda text, answer, extra: _judge(text, answer, options),
        limits=Limits(timeout_s, 1 << 30),
        version=_LOGIC,
        imports=(__name__,),
    )


def _judge(text: str | None, answer: str, options: _Options, reason: str | None = None) -> Verdict:
    try:
        matches = _matchers(answer, options)
    except short_golds.Unreadable as error:
        return Verdict("bad_gold", reason=str(error))
    if text is None:
        return Verdict("no_answer", 0.0, False, reason=reason or "it gives no text")
    if options.match == "regex" and len(text) > _MOST:
        return Verdict("no_answer", 0.0, False, reason=f"it has more than {_MOST} characters")
    wrong = _wrong_length(text.strip(), options.lengths)
    if wrong is None and matches:
        plain = _plain(text, options)
        held = [matches_gold(plain) for matches_gold in matches]
        if not (all(held) if options.golds == "all" else any(held)):
            wrong = f"{held.count(False)} of {len(held)} golds do not match"
    return Verdict("ok", float(wrong is None), wrong is None, text.strip()[:_STORED], wrong)


def _matchers(answer: str, options: _Options) -> list[Callable[[str], bool]]:
    """Whether a plain text matches, for each gold. Raises Unreadable."""
    if options.match == "none":
        return []
    if options.match == "regex":
        return [_searcher(pattern, options) for pattern in _patterns(answer)]
    texts = short_golds.texts(answer, {})
    compare = _MATCHES[options.match]
    plain = [_plain(gold, options) for gold in texts]
    return [lambda text, gold=gold: compare(text, gold) for gold in plain]  # type: ignore[misc]


def _patterns(answer: str) -> list[str]:
    """The regular expressions of a gold: a JSON list of texts, or else all of it."""
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        value = None
    is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
    patterns = value if is_list else [answer]
    if not patterns or not all(patterns):
        raise short_golds.Unreadable("it is empty")
    return [unicodedata.normalize("NFC", pattern) for pattern in patterns]


def _searcher(pattern: str, options: _Options) -> Callable[[str], bool]:
    try:
        compiled = re.compile(pattern, re.IGNORECASE if options.is_case_ignored else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise short_golds.Unreadable(f"it is no regular expression: {error}"[:200]) from error
    return lambda text: compiled.search(text) is not None


def _plain(text: str, options: _Options) -> str:
    """The text in the form in which it is compared; a regular expression sees it as it is."""
    text = unicodedata.normalize("NFC", text)
    if options.match == "regex":
        return text
    text = text.casefold() if options.is_case_ignored else text
    return " ".join(text.split()) if options.is_space_one else text


def _wrong_length(text: str, lengths: dict[str, Range]) -> str | None:
    """The first length that is out of its range, in words; None if all are within."""
    for name, (least, most) in lengths.items():
        count = _MEASURES[name](text)
        if count < least or (most is not None and count > most):
            return f"it has {count} {name}"
    return None

"""The 25 constraints of RLVR-IFeval, as open-instruct names them with their arguments.

They are IFEval's in other words: numbers are exact or "around", where IFEval's are bounds. Where
open-instruct's own functions pay for nothing (a title `<<>>`, the option A in "Apple", a text
without letters as one in capitals) or refuse what is asked for, these do not;
docs/verifiers/texts.md has the list.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, get_origin

from rlvr_cli.verification.parsing import json_text, sentences

_BULLET = re.compile(r"^[ \t]*[*-][ \t]+\S", re.MULTILINE)
_HIGHLIGHT = re.compile(r"\*+(?=[^\s*])[^*\n]*?(?<=[^\s*])\*+")
_PLACEHOLDER = re.compile(r"\[[^\[\]\n]*\w[^\[\]\n]*\]")
_TITLE = re.compile(r"<<[^<>\n]*\w[^<>\n]*>>")
_CAPITALS = re.compile(r"\b[A-Z]+\b")

Check = Callable[..., bool]


def word_pattern(word: str) -> re.Pattern[str]:
    """A word or a phrase that is not part of another word, in any case."""
    return re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE)


def _within(count: int, n: int, quantifier: str, around: int) -> bool:
    known = {
        "at least": count >= n,
        "at most": count <= n,
        "around": abs(count - n) <= around,
    }
    if quantifier not in known:
        raise ValueError(f"the quantifier `{quantifier}` is none of {', '.join(known)}")
    return known[quantifier]


def _keywords(text: str, keyword_list: list[str]) -> bool:
    return all(keyword.lower() in text.lower() for keyword in keyword_list)


def _keyword_frequency(text: str, word: str, N: int) -> bool:
    return len(word_pattern(word).findall(text)) == N


def _forbidden_words(text: str, forbidden_words: list[str]) -> bool:
    return not any(word_pattern(word).search(text) for word in forbidden_words)


def _letter_frequency(text: str, letter: str, N: int) -> bool:
    if len(letter) != 1:
        raise ValueError(f"the letter `{letter}` is no single letter")
    return text.count(letter) == N


def _paragraph_count(text: str, N: int) -> bool:
    pieces = "\n".join(line.strip() for line in text.splitlines()).split("* * *")
    return len(pieces) == N and all(piece.strip() for piece in pieces)


def _word_constraint(text: str, N: int, quantifier: str) -> bool:
    return _within(len(text.split()), N, quantifier, max(round(N * 0.1), 1))


def _sentence_constraint(text: str, N: int, quantifier: str) -> bool:
    return _within(len(sentences.split(text)), N, quantifier, 1)


def _paragraphs(text: str, N: int, first_word: str, i: int) -> bool:
    if not 1 <= i <= N:
        raise ValueError(f"there is no paragraph {i} of {N}")
    pieces = text.strip().split("\n\n")
    return len(pieces) == N and pieces[i - 1].strip().startswith(first_word)


def _postscript(text: str, postscript_marker: str) -> bool:
    _, marker, after = text.partition(postscript_marker)
    return bool(marker and after.strip())


def _placeholders(text: str, N: int) -> bool:
    return len(_PLACEHOLDER.findall(text)) >= N


def _bullet_points(text: str, N: int) -> bool:
    return len(_BULLET.findall(text)) == N


def _title(text: str) -> bool:
    return _TITLE.search(text) is not None


def _choice(text: str, options: list[str]) -> bool:
    standing = (rf"(?<!\w){re.escape(option)}(?!\w)" for option in options)
    return any(re.search(pattern, text) for pattern in standing)


def _highlighted_sections(text: str, N: int) -> bool:
    return len(_HIGHLIGHT.findall(text)) >= N


def _sections(text: str, N: int, section_splitter: str) -> bool:
    return text.count(section_splitter) == N


def _json_format(text: str) -> bool:
    try:
        json_text.read(text)
    except json_text.NotJson:
        return False
    return True


def _repeat_prompt(text: str, original_prompt: str) -> bool:
    return text.strip().startswith(original_prompt.strip())


def _two_responses(text: str) -> bool:
    pieces = [piece.strip() for piece in text.split("******")]
    return len(pieces) == 2 and all(pieces) and pieces[0] != pieces[1]


def _capital_words(text: str, N: int, quantifier: str) -> bool:
    return _within(len(_CAPITALS.findall(text)), N, quantifier, max(round(N * 0.1), 1))


def _end(text: str, end_phrase: str) -> bool:
    return text.strip().endswith(end_phrase.strip())


def _quotation(text: str) -> bool:
    text = text.strip()
    return text[:1] == text[-1:] == '"' and bool(text.strip('" \n\t'))


CHECKS: dict[str, Check] = {
    "verify_keywords": _keywords,
    "verify_keyword_frequency": _keyword_frequency,
    "validate_forbidden_words": _forbidden_words,
    "verify_letter_frequency": _letter_frequency,
    "verify_paragraph_count": _paragraph_count,
    "validate_word_constraint": _word_constraint,
    "verify_sentence_constraint": _sentence_constraint,
    "validate_paragraphs": _paragraphs,
    "verify_postscript": _postscript,
    "validate_placeholders": _placeholders,
    "verify_bullet_points": _bullet_points,
    "validate_title": _title,
    "validate_choice": _choice,
    "validate_highlighted_sections": _highlighted_sections,
    "validate_sections": _sections,
    "validate_json_format": _json_format,
    "validate_repeat_prompt": _repeat_prompt,
    "validate_two_responses": _two_responses,
    "validate_uppercase": str.isupper,
    "validate_lowercase": str.islower,
    "validate_frequency_capital_words": _capital_words,
    "validate_end": _end,
    "validate_quotation": _quotation,
    "validate_no_commas": lambda text: "," not in text,
}
"""By name, each called with the text and its arguments; `validate_response_language` needs a
detector of languages and is none of them."""


def arguments(check: Check) -> dict[str, Any]:
    """The arguments that a check takes in addition to the text, with their types."""
    parameters = list(inspect.signature(check).parameters.values())[1:]
    return {parameter.name: parameter.annotation for parameter in parameters}


def bound(check: Check, given: Mapping[str, Any]) -> Callable[[str], bool]:
    """A check with its arguments.

    Raises ValueError where one is missing or has no meaning.
    """
    values = {}
    for name, kind in arguments(check).items():
        value = given.get(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, get_origin(kind) or kind):
            raise ValueError(f"its `{name}` is {value!r:.60}")
        if value in ("", []):
            raise ValueError(f"its `{name}` is empty")
        values[name] = value
    check("a", **values)  # an argument without a meaning shows
    return lambda text: check(text, **values)

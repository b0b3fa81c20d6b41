r"""What follows an answer and is none of it: `, n \in \mathbb{Z}`, `for any constant c`."""

import re

_SYMBOL = r"[a-zA-Z](?:_\{?\w+\}?)?"
_IN = r"\s*\\in\s*(\\mathbb\{[A-Z]\}(?:[_^][^\s)]*)?|\\mathbb [A-Z]|[RZNQC])\s*\)?\s*$"
_DOMAINS = (
    re.compile(
        rf"\s*[,;(]\s*(?:\\(?:text|mathrm)\s*\{{[^{{}}]*\}}\s*)?\(?\s*{_SYMBOL}(?:\s*,\s*{_SYMBOL})*{_IN}"
    ),
    re.compile(rf"\s+(?:\\(?:text|mathrm)\s*\{{[^{{}}]*\}}\s*)?\(?\s*{_SYMBOL}{_IN}"),
)
_WORDS = re.compile(
    r"(?:\s*[,;(]\s*|\s+|(?<=\}))(?:\\text\s*\{\s*)?,?\s*"
    r"(?:(?:for\s+)?(?:any|all|every|some|each|arbitrary)\b|where\b|with\b|in which\b"
    r"|(?:for|and)\s+(?:any|all|every|some|each|arbitrary)\b|\\forall(?![a-zA-Z]))(.*)$",
    re.DOTALL,
)
_PLACES = re.compile(
    r"(?:constant|real|integer|number|arbitrary|any|parameter|function)", re.IGNORECASE
)
_LETTER_ALONE = re.compile(
    r"^\s*\}?\s*(?:real\s+|constants?\s+|integers?\s+|numbers?\s+)*\}?\s*\$?\s*(?:[a-zA-Z](?![a-zA-Z])|\\[a-zA-Z]+)(?:_\{?\w+\}?)?"
    r"(?:\s*(?:,|\\in|\\text\{\s*and\s*\}|and)\s*(?:\\mathbb\{[A-Z]\}|\\[a-zA-Z]+|[a-zA-Z](?![a-zA-Z])))*\s*\$?[\s}).]*$"
)


def parted(text: str) -> tuple[str, str]:
    """A text without such a trailer, and the domain that the trailer names, empty for none."""
    for pattern in _DOMAINS:
        match = pattern.search(text)
        if match and text[: match.start()].strip() and "\\{" not in text[: match.start()]:
            domain = re.sub(r"[\s{}\\]|mathbb", "", match[1])
            return text[: match.start()].rstrip(" ,;("), domain
    match = _WORDS.search(text)
    if match and text[: match.start()].strip() and _is_idle(match[1]):
        return text[: match.start()].rstrip(" ,;("), ""
    return text, ""


_OF_INTEGERS = (
    re.compile(r"([a-zA-Z])\s*\\in\s*(?:\\mathbb\s*\{?\s*)?Z(?![a-zA-Z])"),
    re.compile(
        r"(?<![a-zA-Z\\])([a-zA-Z])(?![a-zA-Z])[\s$}]*(?:\\text\s*\{)?\s*is\s+(?:an|any)\s+integer\b"
    ),
    re.compile(r"\bintegers?\s*(?:\}\s*)?\$?\s*([a-zA-Z])(?![a-zA-Z])"),
)
_LETTER = re.compile(r"(?<![a-zA-Z\\])[a-zA-Z](?![a-zA-Z])")


def in_letters_of(gold: str, value: str, answer: str, other: str) -> str:
    """The answer's value with its integer parameter called as in the gold: `k\\pi` for `n\\pi`.

    `gold` and `answer` have the trailers that `value` and `other` lack.
    """
    name, called = _parameter(gold, value), _parameter(answer, other)
    if not name or not called or name == called or name in _LETTER.findall(other):
        return other
    return re.sub(rf"(?<![a-zA-Z\\]){called}(?![a-zA-Z])", name, other)


_CONSTANTS = re.compile(r"(?<![a-zA-Z\\])C_\{?([12])\}?(?![0-9])")
_OTHER_CONSTANTS = re.compile(
    r"(?<![a-zA-Z\\])(?:([cK])_\{?[12]\}?|[ABab](?![a-zA-Z_(])|[AB](?=[xt]?e\^|[xt](?![a-z])))"
)


def constants_of(gold: str, answer: str) -> list[str]:
    """The answer with its two constants called as in the gold: `C_1` and `C_2` for `A` and `B`."""
    if set(_CONSTANTS.findall(gold)) != {"1", "2"} or _CONSTANTS.search(answer):
        return []
    names = sorted({match[0] for match in _OTHER_CONSTANTS.finditer(answer)})
    if len(names) != 2 or any(name in gold for name in names):
        return []
    return [_renamed(answer, order) for order in (names, names[::-1])]


def _renamed(answer: str, names: list[str]) -> str:
    places = {name: f"C_{n}" for n, name in enumerate(names, start=1)}
    return _OTHER_CONSTANTS.sub(lambda match: places[match[0]], answer)


def _parameter(text: str, value: str) -> str:
    r"""The letter that a text says is any integer, or that alone is with \pi in `x = 2k\pi`."""
    trailer = text[len(value) :]
    for pattern in _OF_INTEGERS:
        if match := pattern.search(trailer):
            return match[1]
    label, _, right = value.partition("=")
    letters = set(_LETTER.findall(right)) - {"e", "i"}
    is_alone = len(letters) == 1 and letters <= {*"klmn"} and r"\pi" in right
    return letters.pop() if is_alone and not letters & {*_LETTER.findall(label)} else ""


def _is_idle(tail: str) -> bool:
    """Whether words say no more than that a letter is any constant or number."""
    if re.search(r"[<>]|\\(?:le|ge|neq)(?![a-z])|=", tail):
        return False
    if _LETTER_ALONE.match(tail):
        return True
    return bool(_PLACES.search(tail)) and not re.search("[0-9]", tail)

"""The option that a text chooses, as a letter; linear in the text's length."""

import re

from rlvr_cli.verification.parsing import boxed

_TAIL = 20_000  # characters at the end of a text that are read
_OPEN = r"(?:[\(\[\{\"'`*_$]|\\(?:text|mathbf|mathrm|boxed)\{){0,4}"
_CLOSE = r"[\)\]\}\"'`*_$]"
_ANOTHER = r"(?![ \t]{0,2}(?:,|/|&|and\b|or\b)[ \t]{0,2}" + _OPEN + r"[A-Z]\b)"
_LETTER = _OPEN + rf"([A-Z])(?:{_CLOSE}{{1,4}}|(?=[.,:;!?\s]|$)){_ANOTHER}(?![A-Za-z'’])"
_HEAD = r"\b(?:[Aa]nswer|ANSWER|(?:[Cc]orrect|[Rr]ight|[Bb]est)[ \t](?:option|choice|letter))"
_IS = (
    r"(?:\*\*)?[ \t]{0,3}(?:(?:is|IS|(?:should|would|must|will|seems to|appears to) be)\b)?"
    r"[ \t]{0,3}(?:likely[ \t]|therefore[ \t])?[:=]?(?:\*\*)?[ \t\n]{0,3}"
)
_NOUN = r"(?:(?:[Tt]he[ \t])?(?:option|choice|letter|answer)?[ \t]{0,3})"
_ANCHORED = re.compile(_HEAD + _IS + _NOUN + _LETTER)
_BARE = re.compile(rf"{_OPEN}([A-Z]){_CLOSE}{{0,4}}[.:]?")


def last(text: str, allowed: str) -> str | None:
    """The last anchored letter among `allowed`; a bare one only if the text is nothing else.

    Anchors are a box and words such as "the answer is"; a box that holds no option is none. The
    letter stands alone: the article "a" and the pronoun "I" of running text are no choices, and
    neither are several letters at once.
    """
    text = text.strip()[-_TAIL:]
    if (bare := _BARE.fullmatch(text)) and bare[1] in allowed:
        return bare[1]
    if len(text) == 1 and text.upper() in allowed:
        return text.upper()
    box = boxed.last_box(text)
    if box is not None and (inside := _BARE.fullmatch(box.strip())) and inside[1] in allowed:
        return inside[1]
    letters = [letter for letter in _ANCHORED.findall(text) if letter in allowed]
    return letters[-1] if letters else None

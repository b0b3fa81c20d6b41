r"""The answer that a text ends with: `\boxed{}`, `####`, or after "the answer is".

Everything here is linear in the text's length, as it runs in the calling process.
"""

import re

_BRACES = re.compile(r"\\(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)
_HASHES = re.compile(r"####[ \t]*([^\n]*)")
_PHRASE = re.compile(
    r"\banswer\b(?:\*\*)?[ \t]{0,3}(?:(?:is|are|equals)\b[ \t]{0,3}:?|[:=])", re.IGNORECASE
)
_LINE = re.compile(r"^A:[ \t]*([^\n]*)", re.MULTILINE)
_MATH = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n")
_REASON = re.compile(r"[ \t]+(?:because|since|which|as|so)[ \t]")
_TAIL = 2000  # characters after an anchor that are read


def last_box(text: str) -> str | None:
    r"""The content of the last balanced `\boxed{}` or `\fbox{}`; of nested ones the inmost."""
    opened: list[int] = []  # where each open brace's content starts; negative if it is no box
    span: tuple[int, int] | None = None
    for token in _BRACES.finditer(text):
        mark = token[0]
        if mark == "{":
            opened.append(-1)
        elif mark[0] == "\\" and mark[-1] == "{" and len(mark) > 2:
            opened.append(token.end())
        elif mark == "}" and opened:
            start = opened.pop()
            if start >= 0 and (span is None or span[0] < start):  # else it lies around that one
                span = (start, token.start())
    return text[span[0] : span[1]] if span else None


def anchored(text: str) -> str | None:
    """The answer that the text marks as such; a box before other marks, the last of its kind."""
    box = last_box(text)
    if box is not None:
        return box.strip() or None
    for pattern in (_HASHES, _LINE):
        if answers := pattern.findall(text):
            return answers[-1].strip() or None
    ends = [match.end() for match in _PHRASE.finditer(text)]
    return _phrase(text[ends[-1] : ends[-1] + _TAIL]) if ends else None


def _phrase(tail: str) -> str | None:
    """What follows "the answer is": its mathematics if it begins so, else its sentence."""
    tail = tail.lstrip("*_ \t\n")
    for opening, closing in _MATH:
        if tail.startswith(opening):
            inside, closed, _ = tail[len(opening) :].partition(closing)
            return inside.strip() or None if closed else None
    sentence = _SENTENCE_END.split(tail, maxsplit=1)[0]
    if sentence[:1].isalpha():
        sentence = sentence.rpartition(" is ")[2]
    return _REASON.split(sentence, maxsplit=1)[0].strip("*_ \t.") or None


def tail(text: str) -> str | None:
    """The end of a text, for a reader of what nothing marks; None if it is blank."""
    return text.strip()[-_TAIL:] or None

r"""The answer that a text ends with: `\boxed{}`, `<answer>`, `####`, or after "the answer is".

Everything here is linear in the text's length, as it runs in the calling process.
"""

import re
from dataclasses import dataclass

from rlvr_cli.verification.parsing import answer_phrases, end_tokens

_BOX = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])|\\(?:boxed|fbox)(?=[0-9])")
_BRACES = re.compile(
    r"\\(?:boxed|fbox)\s*(?:(\{)|([-+−]?(?:[0-9]+(?:[.,/][0-9]+)*"
    r"|\\[dt]?frac\s*(?:\{[^{}]*\}|[0-9])\s*(?:\{[^{}]*\}|[0-9])|\\sqrt\s*(?:\{[^{}]*\}|[0-9]))"
    r"|[A-Z])(?![a-zA-Z0-9^_(*/+-]|\\[a-zA-Z]|[ ][-+*/=^]))|\\.|[{}]",
    re.DOTALL,
)
_HASHES = re.compile(r"####[ \t]*([^\n]*)")
_LINE = re.compile(r"^A:[ \t]*([^\n]*)", re.MULTILINE)
_TAG = re.compile(r"<answer>|</answer>", re.IGNORECASE)
_WORD = r"and|or|und|oder|et|ou|y|o|e|и|или|和|或|与|及"
_BETWEEN = re.compile(
    r"(?:[ \t$&,;、，；]|\\[()\[\],;:! ]|\\q?quad\b|\\(?:lor|land)\b"
    rf"|\\text\s*\{{[^{{}}]{{0,40}}?(?:\b(?:{_WORD})\b|,)\s*\}}|\b(?:{_WORD})\b|(?P<line>\s))*"
    r"(?P<label>(?:[a-zA-Z](?:_(?:\{\w{1,9}\}|\w))?|\\[a-z]{2,8})\s{0,3}=\s{0,3})?(?:\$|\\[(\[])?\s?"
)
_EXPLICIT = re.compile(rf"[,;&、，；]|\b(?:{_WORD})\b|和|或|与|及")
_LABEL = re.compile(
    r"(?<![a-zA-Z0-9+\-*/^_)}=<>]) ?((?:[a-zA-Z](?:_(?:\{\w{1,9}\}|\w))?|\\[a-z]{2,8})\s?=)"
    r"\s?(?:\$|\\[(\[])?\s?$"
)
_LONGEST_BETWEEN = 80  # characters between two boxes of one sentence
_TAIL = 2000  # characters of a text of which nothing is marked


@dataclass(frozen=True)
class _Box:
    start: int
    end: int
    content: str


def last_box(text: str) -> str | None:
    r"""The content of the last balanced `\boxed{}` or `\fbox{}`; of nested ones the inmost."""
    boxes = _boxes(text)
    return boxes[-1].content if boxes else None


def final_boxes(text: str) -> str | None:
    r"""The contents of the boxes that the last sentence lists, with commas between them.

    They are listed where nothing but commas, `and`, `or` and labels (`x = `) is between them; each
    other box is of an earlier thought. None without a box, empty if the last one is.
    """
    boxes = _boxes(text)
    if not boxes or not boxes[-1].content.strip():
        return "" if boxes else None
    listed = [boxes[-1]]
    labels: list[str] = []
    for box in reversed(boxes[:-1]):
        between = text[box.end : listed[0].start]
        if len(between) > _LONGEST_BETWEEN or not (match := _BETWEEN.fullmatch(between)):
            break
        if "\n\n" in between or (match["line"] and not _EXPLICIT.search(between)):
            break
        if not box.content.strip():
            break
        labels.insert(0, match["label"] or "")
        listed.insert(0, box)
    contents = [box.content.strip() for box in listed]
    if len(contents) > 1 and all(labels):
        before = _LABEL.search(text[max(0, listed[0].start - 40) : listed[0].start])
        if before:
            labels.insert(0, before[1])
            contents = [f"{label} {text}" for label, text in zip(labels, contents, strict=True)]
    return ", ".join(dict.fromkeys(contents))


def _boxes(text: str) -> list[_Box]:
    """The balanced boxes of a text, in order; of nested ones only the innermost."""
    first = _BOX.search(text)
    if not first:
        return []
    opened: list[tuple[int, int]] = []  # of each open brace: its box, -1 if none, and its content
    boxes: list[_Box] = []
    for token in _BRACES.finditer(text, first.start()):
        mark = token[0]
        if mark == "{":
            opened.append((-1, token.end()))
        elif token[1]:
            opened.append((token.start(), token.end()))
        elif token[2]:
            boxes.append(_Box(token.start(), token.end(), token[2]))
        elif mark == "}" and opened:
            start, content = opened.pop()
            if start >= 0 and (
                not boxes or boxes[-1].start < start
            ):  # otherwise it encloses that one
                boxes.append(_Box(start, token.end(), text[content : token.start()]))
    return boxes


def anchored(text: str) -> str | None:
    """The answer that the text marks as such; a box before other marks, the last of its kind."""
    text = end_tokens.stripped(text)
    box = final_boxes(text)
    if box:
        return _after(text, box)
    if box == "" and not _phrase_behind(text):
        return None
    if (tagged := _tagged(text)) is not None:
        return answer_phrases.last(tagged) or tagged.strip() or None
    places = answer_phrases.ends(text)
    for pattern in (_HASHES, _LINE):
        matches = list(pattern.finditer(text))
        if not matches:
            continue
        line = matches[-1][1]
        if not (places and places[-1] > matches[-1].end() and _is_heading(line)):
            return answer_phrases.last(line) or line.strip() or None
    return answer_phrases.last(text, places)


def _after(text: str, box: str) -> str | None:
    """A box's content; what takes it back counts: a denial, or another integer as the answer."""
    boxes = _boxes(text)
    last = boxes[-1]
    if len(boxes) > 1 and _NOT.fullmatch(text, boxes[-2].end, last.start):
        return boxes[-2].content.strip() or None
    if DENIED_BEFORE.search(text[max(0, last.start - 60) : last.start]):
        return None
    if correction := answer_phrases.CORRECTION.match(text, last.end):
        return correction[1]
    if _DENIED_BEHIND.match(text, last.end):
        return None
    if _INTEGER.fullmatch(box) and (said := _phrase_behind(text)) and _INTEGER.fullmatch(said):
        return said
    return _with_factors(text, last, box) if box == last.content.strip() else box


_MINUS = re.compile(r"(?:^|[\n$=({:]|\\[(\[])[ ]?[-−]\Z|(?:[$=]|\\[(\[])\s{0,3}[-−]\s{0,3}\Z")
_FACTOR = re.compile(
    r"\s{0,3}(?:\\cdot|\\times)\s{0,3}10\s{0,3}\^\s{0,3}(?:\{\s*-?[0-9]{1,4}\s*\}|-?[0-9])"
    r"|\s?\^\s?(?:\{\s*-?[0-9]{1,4}\s*\}|[0-9])"
)
_PLAIN = re.compile(r"[0-9.,]+|\\[dt]?frac\s*\{[^{}]*\}\s*\{[^{}]*\}|[a-zA-Z]")


def _with_factors(text: str, last: _Box, box: str) -> str:
    r"""A box's content with the sign and the power that are beside it: `-\boxed{5}` is -5."""
    factor = _FACTOR.match(text, last.end)
    has_sign = _MINUS.search(text[max(0, last.start - 8) : last.start])
    if not factor and not has_sign:
        return box
    inside = box if _PLAIN.fullmatch(box) else f"({box})"
    return "-" * bool(has_sign) + inside + (factor[0] if factor else "")


def _phrase_behind(text: str) -> str | None:
    """The answer of a phrase such as "the answer is" after the last box."""
    rest = text[_boxes(text)[-1].end :]
    return answer_phrases.last(rest)


_INTEGER = re.compile(r"\s*[-+−]?[0-9]+(?:,[0-9]{3})*\s*")
_MARKUP = r"[\s$*:]*(?:\\[(\[]\s*)?"
DENIED_BEFORE = re.compile(
    rf"(?:(?:\b(?:not|never|cannot)|n['’]t)(?:\s+(?:be|equal|equal to|simply|actually"
    rf"|just))?|\b(?:if|suppose|assume|assuming|whether)\s+(?:that\s+)?(?:the\s+)?"
    rf"(?:(?:final|correct)\s+)?(?:answer|result)\s+(?:is|was|were)){_MARKUP}$",
    re.IGNORECASE,
)
_NOT = re.compile(r"[\s$.,;:)\]\\]*(?:and|but|is)?\s*(?:not|rather than|instead of)[\s$(\[\\]*")
_DENIED_BEHIND = re.compile(
    rf"[\s$*.]*(?:\\[)\]])?[\s$*.]*(?:{answer_phrases.BACK}|\?\s*(?:no|nope|wrong)\b|(?:is|was"
    r"|would be)\s+(?:clearly\s+|obviously\s+)?"
    r"(?:wrong|incorrect|not\s+(?:the\s+)?(?:right|correct|answer|valid|possible)|false|impossible)\b)",
    re.IGNORECASE,
)


def _tagged(text: str) -> str | None:
    """What the last `<answer>` holds, to its end tag or the end of the text."""
    if "<" not in text:
        return None
    tags = list(_TAG.finditer(text))
    for number in range(len(tags) - 1, -1, -1):
        if not tags[number][0].startswith("</"):
            end = tags[number + 1].start() if number + 1 < len(tags) else len(text)
            return text[tags[number].end() : end]
    return None


def _is_heading(text: str) -> bool:
    return text.strip("*# ")[:1].isalpha() and " " in text.strip()


def tail(text: str) -> str | None:
    """The end of a text, for a reader of what nothing marks; None if it is blank."""
    return text.strip()[-_TAIL:] or None

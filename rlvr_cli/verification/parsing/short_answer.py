r"""The short answer that a text gives: `<answer>`, `\boxed{}`, after "the answer is", or all of it.

Linear in the text's length.
"""

import re

from rlvr_cli.verification.mathematics import plain
from rlvr_cli.verification.parsing import answer_phrases, boxed, sentences

_TAG = re.compile(r"<(/?)(answer|finish)>", re.IGNORECASE)
_PHRASE = re.compile(
    r"\banswers?\b(?:\*\*|__)?[ \t]{0,3}(?:(?:is|are|was|were)\b[ \t]{0,3}:?|[:=])|^A:"
    r"|(?:答案|答え|正解)(?:是|为|為|は|[:：])[:：]?",
    re.IGNORECASE | re.MULTILINE,
)
_EDGES = "*_ \t\n。"
_EMPHASIS = re.compile(r"</?(?:b|strong|em|i|u)>", re.IGNORECASE)
_CORRECTED = re.compile(
    r"\s*(?:(?:no|wait|hmm+|oops|sorry|correction)\b[\s,.!:—–-]*)+(?:actually,?\s+)?"
    r"(?:it|that)(?:['’]s|\s+(?:is|should\s+be))\s+(?!not\b|correct\b|right\b)",
    re.IGNORECASE,
)
_REASON = re.compile(r",\s+(?:because|since\s+(?:it|he|she|they|the|this|that))\b", re.IGNORECASE)
_TAIL = 2000  # characters after "the answer is" that are read


def read(text: str, most_words: int) -> tuple[str | None, str | None]:
    """The answer, or why there is none.

    Of several marks of a kind the last one counts, and tags before a box before words. A text that
    marks nothing is its own answer if it is one paragraph of at most `most_words` words.
    """
    if not text.strip():
        return None, "it is empty"
    if tags := list(_TAG.finditer(text)):
        return _tagged(text, tags)
    if (box := boxed.last_box(text)) is not None:
        inside = plain.unwrapped(box)
        return (inside, None) if inside else (None, "its box is empty")
    text = _EMPHASIS.sub("", text) if "</" in text else text
    phrases = list(_PHRASE.finditer(text))
    if phrases and (answer := _after(text[phrases[-1].end() :][:_TAIL])):
        return answer, None
    words, stripped = len(text.split()), text.strip()
    if words <= most_words and "\n\n" not in stripped:
        return stripped, None
    paragraphs = " in several paragraphs" if words <= most_words else ""
    return None, f"it marks no answer and has {words} words{paragraphs}"


def _tagged(text: str, tags: list[re.Match[str]]) -> tuple[str | None, str | None]:
    """What the last pair of tags holds."""
    last, before = tags[-1], tags[-2] if len(tags) > 1 else None
    name = last[2].lower()
    if not last[1]:
        return None, f"its last <{name}> is not closed"
    if before is None or before[1] or before[2].lower() != name:
        return None, f"its last </{name}> closes no <{name}>"
    inside = text[before.end() : last.start()].strip()
    box = boxed.last_box(inside)
    answer = inside if box is None else plain.unwrapped(box)
    return (answer, None) if answer else (None, f"its <{name}> is empty")


def _after(tail: str) -> str | None:
    """The sentence that follows "the answer is", without full stop, emphasis and reason."""
    pieces = sentences.split(tail.lstrip(_EDGES))
    if not pieces:
        return None
    rest = tail.partition(pieces[0])[2]
    if answer_phrases.TAKEN_BACK.match(rest):
        return None
    if corrected := _CORRECTED.match(rest):
        pieces = sentences.split(rest[corrected.end() :]) or pieces
    answer = _REASON.split(pieces[0], maxsplit=1)[0]
    return answer.strip(_EDGES).rstrip(".").strip(_EDGES) or None

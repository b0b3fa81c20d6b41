"""The option that a text chooses; linear in the text's length, as it runs in the calling process.

A claim is a place where the text says which option it chooses. Strong ones are a box, an answer
tag, a JSON field, and words such as "the answer is"; weak ones are "I choose B", "B is correct",
"therefore, B", and a line that is only an option. The last strong one counts, or without any the
last weak one. An invalid claim (several options, one that does not exist) counts as well: the text
then has no answer, whatever it said before.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rlvr_cli.verification.parsing import answer_phrases, boxed, choice_phrases, end_tokens, letters
from rlvr_cli.verification.parsing.letters import SPAN, Named, Reader

_TAIL = 200_000  # characters at the end of a text that are read
_MOST = 500  # places that are looked at, from the end of a text
_LINE = 100  # characters of an option and its text on a line of its own
_BEFORE = 80  # characters before a claim that can make it none

_KEY = r"(?:(?:final|correct|selected|best|chosen|predicted|my|your)[_ -]?)?"
_JSON = re.compile(
    rf"[\"']{_KEY}(?:answer|choice|option|selection|prediction)s?"
    r"(?:[_ -]?(?:letter|index|idx|id|choice|option|key|label|text))?[\"']\s{0,9}:\s{0,9}"
    r"(\"(?:[^\"\\]|\\.){0,400}\"|'(?:[^'\\]|\\.){0,400}'|\[[^\]]{0,200}\]|[^\s,}\]]{1,20})",
    re.IGNORECASE,
)
_TAG = re.compile(
    r"<(final_answer|answer|choice)>(.{0,400}?)(?:</\1>|\Z)|\[\[([^\[\]]{1,40})\]\]"
    r"|<\|begin_of_box\|>(.{0,400}?)<\|end_of_box\|>",
    re.DOTALL | re.IGNORECASE,
)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)

_FENCED = re.compile(r"```[a-z]{0,12}\n([^`]{1,400})```")  # a text that is one block
_THING = re.compile(
    r"\b(?:plan|team|group|vitamin|hepatitis|type|class|section|point|event|set|angle|figure|graph"
    r"|matrix|company|person|student|player|city|machine|box|bag|tank|train|car)[ \t]+\Z",
    re.IGNORECASE,
)  # before a letter that is its name: "Team B is right"
_WORD = re.compile(r"\w")


@dataclass(frozen=True)
class Claim:
    """What a text says at `start` to `end`: the place of an option, or why it is none."""

    start: int
    end: int
    place: int | None
    reason: str = ""
    is_hedged: bool = False


def choice(text: str, reader: Reader) -> Claim:
    """The choice that a text makes; without one, `place` is None and `reason` says why."""
    text = letters.plain(end_tokens.stripped(text[-_TAIL:])).strip()
    text = fenced[1].strip() if (fenced := _FENCED.fullmatch(text)) else text
    heads = _last_of(choice_phrases.HEAD, text)
    introduced = [claim for head in heads if (claim := _introduced(text, head, reader))]
    strong = _latest(_strong(text, reader, introduced))
    last = _settled(text, strong)
    after = last.end if last else 0
    unsure = _weak(text, reader, introduced, is_all=last is None)
    weak = _latest(claim for claim in unsure if claim.start >= after)
    if weak:
        later = _settled(text, weak, is_weak=True)
        if last is None or last.place == (later and later.place):
            last = later if last is None else last
        elif later and later.place is not None:
            turned = choice_phrases.TURN.search(text, last.end, later.end)
            last = later if turned else _contradiction(last, later)
    if last and answer_phrases.TAKEN_BACK.match(text, last.end):
        return Claim(last.start, last.end, None, "it takes its choice back")
    return last or _reviewed(text, reader) or Claim(0, 0, None, "it names no option")


def _latest(claims: Iterator[Claim]) -> list[Claim]:
    """The claims from the last to the first, as many as decide."""
    kept = sorted(claims, key=lambda claim: (-claim.start, claim.end))
    return [claim for n, claim in enumerate(kept) if not n or claim.end <= kept[n - 1].start][:2]


def _settled(text: str, claims: list[Claim], *, is_weak: bool = False) -> Claim | None:
    """The last claim, unless the one before it says otherwise in the same breath."""
    if len(claims) < 2 or claims[0].place == claims[1].place or claims[1].place is None:
        return claims[0] if claims else None
    last, before = claims
    between = text[before.end : last.start]
    if is_weak:
        is_turn = bool(choice_phrases.TURN.search(text, before.end, last.end))
    else:
        is_turn = bool(_WORD.search(between.replace("the", "").replace("The", "")))
    return last if is_turn or last.place is None else _contradiction(before, last)


def _contradiction(one: Claim, other: Claim) -> Claim:
    return Claim(one.start, other.end, None, "it names two options one after the other")


def _strong(text: str, reader: Reader, introduced: list[Claim]) -> Iterator[Claim]:
    for match in _last_of(_BOX, text):
        inside = _braced(text, match.end())
        if boxed.DENIED_BEFORE.search(text[max(0, match.start() - _BEFORE) : match.start()]):
            continue
        if inside is not None and (named := reader.read_all(inside)):
            yield Claim(match.start(), match.end() + len(inside) + 1, named.place, named.reason)
    for match in _last_of(_TAG, text):
        inside = match[2] or match[3] or match[4] or ""
        yield _field(inside, match, reader, is_closed=match[3] is None)
    for match in _last_of(_JSON, text):
        yield _field(match[1].strip("\"'[]"), match, reader)
    yield from (claim for claim in introduced if not claim.is_hedged)


def _field(inside: str, match: re.Match[str], reader: Reader, *, is_closed: bool = True) -> Claim:
    """The content of a place that is only for the answer: if it is no answer, that counts too."""
    named = reader.read_all(re.sub(r"\\n|[\"']", " ", inside) if match.re is _JSON else inside)
    if named is None:
        for head in _last_of(choice_phrases.HEAD, inside):
            if claim := _introduced(inside, head, reader):
                named = Named(claim.place, claim.end, claim.reason)
    if named is None:
        shown = " ".join(inside.split())[:40]
        named = Named(None, 0, f"its answer `{shown}` is none of the options {reader.options}")
    return Claim(match.start(), match.end(), named.place, named.reason)


def _introduced(text: str, head: re.Match[str], reader: Reader) -> Claim | None:
    """The claim after words such as "the answer is"."""
    before = text[max(0, head.start() - _BEFORE) : head.start()]
    if choice_phrases.VOID.search(before):
        return None
    if after := choice_phrases.IS.match(text, head.end(), head.end() + SPAN):
        begins = after["is"] not in ("is", "was") and text[after.end() : after.end() + 1] in "AI"
        named = reader.at(text, after.end(), is_strict=begins)  # "Answer: A man"
        if named is None and after["article"]:
            named = reader.at(text, after.start("article"), is_strict=True)
        is_hedged = bool(after["hedge"])
    else:
        named, is_hedged = _titled(text, head, before, reader), False
    if named is None:
        return None
    return Claim(head.start(), named.end, named.place, named.reason, is_hedged)


def _titled(text: str, head: re.Match[str], before: str, reader: Reader) -> Named | None:
    """What follows "answer" without a verb or a colon: "Answer (B)", or on the next line."""
    after = choice_phrases.NEXT.match(text, head.end())
    if choice_phrases.ASKED.search(before) or not (after or choice_phrases.CHOSEN.match(head[0])):
        return None
    start = after.end() if after else head.end()
    is_small = re.match(r"[a-z](?![)\]}])", text[start : start + 2])
    return None if is_small else reader.at(text, start, is_strict=True)


def _weak(text: str, reader: Reader, introduced: list[Claim], *, is_all: bool) -> Iterator[Claim]:
    """The weak claims; `is_all` says that there are no others in the text."""
    for match in _last_of(choice_phrases.WEAK, text):
        is_so = match["so"] and not match["so"].lower().startswith("it")
        void = choice_phrases.VOID_CONCLUSION if is_so else choice_phrases.VOID
        if void.search(text[max(0, match.start() - _BEFORE) : match.start()]):
            continue
        label = reader.labels.at.match(text, match.end())
        if label is None or (label[2].islower() and label[0] == label[2]):
            continue
        if match["last"] and text[label.end() :].strip(" .!*_)"):
            continue
        if match["so"] and not choice_phrases.SENTENCE_END.match(text, label.end()):
            continue
        if label[0] == "I" and text[label.end() : label.end() + 1] != ".":
            continue
        if (named := reader.at(text, match.end(), is_strict=True)) and named.place is not None:
            yield Claim(match.start(), named.end, named.place)
    yield from (claim for claim in introduced if claim.is_hedged)
    for match in _last_of(choice_phrases.RIGHT, text):
        if claim := _called_right(text, match, reader):
            yield claim
    yield from _lines(text, reader, is_all=is_all)


def _called_right(text: str, match: re.Match[str], reader: Reader) -> Claim | None:
    """The claim of "B is correct", "option B (Paris) is the best answer"."""
    start = max(0, match.start() - 2 * _BEFORE)
    before = text[start : match.start()]
    phrase = next(filter(None, (called.search(before) for called in reader.labels.called)), None)
    if phrase is None or re.match(r"[ \t]*\?", text[match.end() :]):
        return None
    lead = before[: phrase.start(1)]
    if _THING.search(lead):
        return None
    if match["only"] and not choice_phrases.ONLY.search(lead):
        return None
    if choice_phrases.VOID.search(lead) or reader.labels.joined.search(lead):
        return None
    is_bare = len(phrase[1]) == len(phrase[2])
    if is_bare and (phrase[2].islower() or phrase[2].isdigit()):
        return None
    named = reader.read_all(phrase[1])
    if named is None or named.place is None:
        return None
    return Claim(start + phrase.start(1), match.end(), named.place)


def _reviewed(text: str, reader: Reader) -> Claim | None:
    """The one option that a list calls right where it calls each of the others wrong."""
    lines = list(reader.labels.review.finditer(text))
    verdicts = {reader.labels.places.get(line[1].casefold()): bool(line[2]) for line in lines}
    right = [place for place, is_right in verdicts.items() if is_right]
    is_all = verdicts.keys() == {*range(len(reader.options.labels))} and len(right) == 1
    if not is_all or len(lines) > len(verdicts) or text[lines[-1].end() :].strip():
        return None
    return Claim(lines[0].start(), len(text), right[0])


def _lines(text: str, reader: Reader, *, is_all: bool) -> Iterator[Claim]:
    """The first and the last line, where they are an option and the text lists no others.

    With its text an option may be one of a list; next to a strong claim only a label counts.
    """
    first, last = text.partition("\n")[0], text.rpartition("\n")[2]
    is_review = False  # the first line is one of those that judge each option
    for line, start in ((first, 0), (last, len(text) - len(last))):
        named = reader.read_all(line, is_marked=False) if len(line) <= SPAN else None
        if named is None or (named.place is None and "\n" in text):
            is_review = is_review or named is not None
            continue
        line_said = letters.unbulleted(line)
        label = reader.labels.line.match(line_said)
        is_alone = label is not None and not line_said[label.end() :].strip(" .!*_")
        if "\n" in text and not is_alone:
            listed = {
                groups[0].casefold() for groups in reader.labels.line.findall(text) if groups[1]
            }
            is_apart = line is first and text[len(line) :].startswith("\n\n")
            if is_apart and is_all and label and _opens_reasons(label[1], listed, reader):
                yield Claim(start, start + len(line), named.place, named.reason)
                continue
            is_short = len(line) <= _LINE and not (label and label[1].islower())
            if len(listed) > 1 or not is_short or not is_all or is_review:
                continue
        yield Claim(start, start + len(line), named.place, named.reason)


def _opens_reasons(label: str, listed: set[str], reader: Reader) -> bool:
    """Whether an option above a list is the choice and the list says why the others are not."""
    folded = label.casefold()
    return reader.labels.places.get(folded, 0) > 0 and reader.labels.places.get(min(listed)) == 0


def _last_of(pattern: re.Pattern[str], text: str) -> list[re.Match[str]]:
    """The last places where a pattern matches."""
    return list(pattern.finditer(text))[-_MOST:]


def _braced(text: str, start: int) -> str | None:
    """The content of the braces that are open at `start`, if they close soon."""
    depth = 1
    for mark in _BRACE.finditer(text, start, start + SPAN):
        depth += (mark[0] == "{") - (mark[0] == "}")
        if depth == 0:
            return text[start : mark.start()]
    return None

"""How a text names one option: by its label, by its text, or by both.

Labels are separate: they are not part of a word, a formula or an enumeration. A label that is also
a word (the article "a", the pronoun "I", a number) counts only if a sentence or a bracket ends
after it. Each function reads a few hundred characters at most.
"""

import functools
import re
import unicodedata
from dataclasses import dataclass

from rlvr_cli.verification.parsing import choice_words
from rlvr_cli.verification.parsing.options import Options

_NAME = choice_words.alternation(choice_words.NAMES)
_ARTICLE = rf"the|la|le|el|die|der|(?-i:[oa])|[oa](?=[ \t]{{1,3}}(?:{_NAME})\b)"  # "A B" is two
_NOUN = rf"(?i:(?:(?:{_ARTICLE})[ \t])?(?:(?:{_NAME})[ \t]{{0,2}}[:#]?[ \t]{{0,2}})?)"
_CALLED = re.compile(r"(?:option|choice|number|选项|번호)[ \t]{0,2}$", re.IGNORECASE)
SPAN = 400  # characters after an introducing phrase in which an answer is searched for
_WRAPS = r"\\(?:text|textbf|textit|textrm|mathbf|mathrm|mathit|mathsf|boldsymbol|boxed|fbox|bf|rm)"
OPEN = (
    rf"(?:[(\[{{<\"'“‘«「『【《`*_$#]|\\[(\[]|{_WRAPS}\s?\{{?|<\|[a-z_]{{1,20}}\|>"
    r"|[ \t](?=[(\[{<\"'“‘«「『【《`*_$\\])){0,8}"
)
CLOSE = r"(?:[)\]}>\"'”’»」』】》`*_$]|\\[)\]]|<\|[a-z_]{1,20}\|>|[ \t](?=[)\]}*$])){0,8}"
_LATIN = r"A-Za-z0-9À-ɏЀ-ӿ"
_STRICT = re.compile(
    r"[ \t]*(?:$|[\n\r;:!。，；：！、)]|번|입니다|です|है|项|項|號|号|[.,?？](?!\w)|[-–—][ \t\n]"
    r"|\((?!\w\))|(?:because|since|as|for|due|based|given|is|was)\b)"
)
_FORMULA = re.compile(
    r"[ \t]*(?:[=<>≤≥+^×·∩∪]|\\(?:times|cap|cup|cdot|leq?|geq?)\b)|[-/][\w(]|[.,]\d|[%°]"
)
_JOIN = (
    r"(?:,|、|/|&|;|\+|\||and/or|and|or|und|oder|et|ou|y|o"
    r"|e|и|или|和|或|及|與|与|또는|と|veya|và|hoặc)"
)
_NEGATED = re.compile(
    r"[ \t]*,?[ \t]*(?:(?:is|was|seems|looks|would[ \t]be|must[ \t]be|can[ \t]be)[ \t]+"
    r"(?:(?:also|clearly|definitely|therefore|obviously|just|simply|indeed)[ \t]+)?"
    r"(?:not|wrong|incorrect|false|invalid|out|impossible|ruled|eliminated|excluded|unlikely)\b"
    r"|(?:isn|wasn|won|can|doesn|couldn|wouldn)['’]?t\b|cannot\b|does[ \t]not\b|fails?\b"
    r"|(?:是)?(?:不(?!是[ \t]*[A-Z])|错|錯))"
)
_DROPPED = re.compile(
    rf"{_WRAPS}\s*\{{|\\[()\[\]]|[${{}}]|\\(?:quad|qquad)\b|</?(?:b|strong|i|em|u)>"
)
_SPACES = re.compile(r"\\[ ,;!]|[~ \t\r\f\v\u00a0]+")
_BULLET = re.compile(r"^(?:[=-]+>|[>#]+|[-•→⇒✅✔☑➡👉]\ufe0f?)[ \t]+")
_AROUND_SIGN = re.compile(r" ?([=+<>≤≥^/*×·−-]) ?")
_OTHER_SCRIPTS = {"а": "a", "б": "b", "с": "c", "г": "d", "أ": "a", "ا": "a", "ب": "b", "ج": "c",
                  "د": "d"}  # fmt: skip
_FULL_WIDTH = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)} | {0x3000: " "}
_IN_SHAPES = {  # of letters in circles, brackets and squares, where the capitals begin
    first + place: chr(ord("A") + place)
    for first in (0x24B6, 0x1F110, 0x1F130, 0x1F150, 0x1F170)
    for place in range(26)
}
_SET = {  # bold, italic and other letters and digits of mathematics
    code: letter
    for code in range(0x1D400, 0x1D800)
    if len(letter := unicodedata.normalize("NFKC", chr(code))) == 1
}
_USUAL = _FULL_WIDTH | _IN_SHAPES | _SET
_IS_WRONG = (
    r"(?:(?:also|clearly|definitely|obviously|simply)[ \t]+)?"
    r"(?:incorrect|wrong|false|invalid|eliminated|impossible|ruled[ \t]out"
    r"|not[ \t](?:correct|right|true|valid|possible))\b"
)
_WRONG = re.compile(
    rf"{_IS_WRONG}|no(?=[ \t]*(?:$|[.,;:!\n]))|[✗✘❌✖]"
    r"|(?!(?:(?:option|choice)[ \t])?\(?[a-z]\)?[ \t]"
    r"|[^.,;:!?\n]*\b(?:else|rest|others?|because|since|as|for|while|given|so|and|but)\b)"
    rf"[^.,;:!?\n]{{2,60}}?(?:['’]s|[ \t](?:is|was))[ \t]+{_IS_WRONG}",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Named:
    """What is named at a place: an option, or something else, with the reason."""

    place: int | None
    end: int
    reason: str = ""


def plain(text: str) -> str:
    """The text with full-width and ornate letters and digits as the usual ones, of equal length."""
    return text if text.isascii() else text.translate(_USUAL)


def unbulleted(line: str) -> str:
    """A line without the sign that begins it, as an arrow."""
    return _BULLET.sub("", line.strip())


_ASIDE = re.compile(r"[ \t]*\(([^()\n]{1,160})\)")
_REST = re.compile(r"[ \t]*[.:,–—-]?[ \t]*([^\n]{0,300})")


class Labels:
    """The patterns that find the labels of a set of options."""

    def __init__(self, options: Options) -> None:
        self.places = options.names
        is_lettered = all(len(name) == 1 and name.isalpha() for name in self.places)
        if is_lettered and len(self.places) <= 4:
            self.places = {**_in_other_scripts(self.places), **self.places}
        names = "|".join(sorted(map(re.escape, self.places), key=len, reverse=True))
        others = "|[A-Z]" if is_lettered else ""
        label = f"((?i:{names}){others})(?![{_LATIN}]|['’][A-Za-z])"
        self.at = re.compile(f"({OPEN}){label}({CLOSE})")
        self.another = re.compile(
            rf"[ \t]*{_JOIN}[ \t]*(?:(?:and/or|or|and|possibly|maybe|perhaps"
            rf"|probably)[ \t]+)*{_NOUN}({OPEN}){label}{CLOSE}"
            r"(?![ \t]*(?:is|was|are|would|seems|can|does)\b)"
        )
        self.spaced = re.compile(rf"(?:[ \t]+{OPEN}{label}{CLOSE})+[ \t]*[.!]?[ \t]*(?=\n|$)")
        self.or_later = re.compile(
            r"(?:[.):]|[ \t]\(|[ \t][-–—][ \t])[^\n]{0,80}?(?:\b(?:(?:[Oo]r|[Oo]der"
            r"|[Oo]u)(?:[ \t](?:is[ \t]it|maybe|perhaps|possibly))?"
            r"|(?:could|might|may)(?:[ \t](?:also|well))?[ \t]be)|或)[ \t]*"
            rf"{_NOUN}[(*\"]{{0,3}}{label}(?:[).*:, ?]|$)(?![ \t]*(?:is|was|would)\b)"
        )
        self.noun = re.compile(_NOUN)
        self.single = re.compile(rf"{_NOUN}{OPEN}{_NOUN}{label}{CLOSE}[.:!,;]{{0,3}}{CLOSE}")
        self.listed = re.compile(rf"(?:^|\s)[(\[*]{{0,3}}(?i:{names})[.):]\**(?:\s|$)")
        self.in_brackets = re.compile(rf"[(\[]{label}[)\]]")
        self.line = re.compile(rf"^[ \t]*{OPEN}{label}({CLOSE}[.:,]?)", re.MULTILINE)
        self.with_text = re.compile(
            rf"{_NOUN}{OPEN}{_NOUN}{label}(?:{CLOSE}[ \t]*[.:,](?!\d)|[)\]}}*]{{1,4}}"
            rf"|{CLOSE}[ \t]+[-–—→]+(?=[ \t])|{CLOSE}(?=[ \t](?:because|since|as)\b))"
            r"\**[ \t]*(?!(?:is|was|are|can|does|has|would|could|states|says)\b)(\S.*)"
        )
        self.after_text = re.compile(
            rf"([^\n]{{1,160}}?)[,:]?[ \t]*(?:[(\[*]{{1,3}}{_NOUN}{label}[)\]*]{{1,3}}"
            rf"|\b(?:[Oo]ption|[Cc]hoice|[Ll]etter)[ \t]{label})[ \t]*[.!]?[*_]{{0,2}}"
            r"(?=[ \t]*(?:$|\n)|[ \t]+[A-Z])"
        )
        named = rf"((?i:(?:option|choice|answer|letter|选项)[ \t]?)?{OPEN}{label}{CLOSE}"
        self.called = [
            re.compile(rf"(?:^|[\s,;:(—*]){named}{text})$")
            for text in ("", r"[ \t]\([^()\n]{0,80}\)", r"[.):][ \t][^\n.;:?]{0,60}")
        ]
        self.review = re.compile(
            rf"^[ \t*-]*{OPEN}{label}{CLOSE}[ \t]*[.:)–—-]?[ \t]*(?:is[ \t]+)?"
            r"(?i:(yes|true|right|correct|[✓✔✅])|no|false|wrong|incorrect|[✗✘❌✖])"
            r"\ufe0f?[.!]?[ \t]*$",
            re.MULTILINE,
        )
        self.joined = re.compile(
            rf"(?:\b(?:or|and|nor|neither|either|both)|[/&]|{label}{CLOSE},)[ \t]*$"
        )


class Reader:
    """Reads what a text says of these options."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.labels = _labels(options.labels)
        self._texts = _unique([_folded(text) for text in options.texts])

    def read_all(self, text: str, *, is_marked: bool = True) -> Named | None:
        """What a text names that should be one answer and no more, as the content of a box.

        Of a text that nothing marks as an answer, `is_marked` False, less is believed.
        """
        text = _DROPPED.sub("", plain(text)[: 2 * SPAN]).strip()
        text = _BULLET.sub("", re.sub(r"\s*\n\s*", "\n", _SPACES.sub(" ", text)).strip())
        if (place := self._text_of(text)) is not None:
            return Named(place, len(text))
        if single := self.labels.single.fullmatch(text):
            return self._option(
                single[1], single.end(), is_bare=single[0].strip(".:!,;") == single[1]
            )
        if "\n" in text or len(text) > SPAN:
            return None
        if several := self._several(text, self.labels.noun.match(text).end()):  # type: ignore
            return several
        if both := self.labels.with_text.fullmatch(text):
            labelled = self._with_text(both[1], both[2], both.end(), may_be_initial=True)
            is_own = labelled.place is not None and self._says(both[2], labelled.place)
            if not is_own and (_FORMULA.match(both[2]) or self.labels.listed.search(both[2])):
                return Named(None, len(text), "it names several options, or a formula")
            return labelled
        named = self._behind_text(text, 0)
        is_its_own = named and named.place is not None and self._stated(text) is not None
        return named if is_marked or is_its_own else None

    def at(self, text: str, start: int, *, is_strict: bool) -> Named | None:
        """The option that is named from `start` on, after words that introduce an answer."""
        match = self.labels.at.match(text, start)
        line = text[start : start + SPAN].partition("\n")[0]
        if by_text := self._stated(line):
            return Named(by_text[0], start + by_text[1])
        if several := match and self._several(text, start):
            return several
        if match is None or not self._is_separate(text, match, is_strict):
            return self._behind_text(line, start)
        rest = _ASIDE.match(text, match.end()) or _REST.match(text, match.end())
        is_bare = match[0] == match[2] and not _CALLED.search(text[max(0, start - 16) : start])
        is_initial = bool(re.match(r"\. [a-z]", text[match.end() : match.end() + 3]))
        return self._with_text(
            match[2],
            rest[1] if rest else "",
            match.end(),
            is_bare=is_bare,
            may_be_initial=is_initial,
        )

    def _is_separate(self, text: str, match: re.Match[str], is_strict: bool) -> bool:
        """Whether the label is one, and what follows does not make it something else."""
        opening, label, closing = match.groups()
        rest = text[match.end() : match.end() + SPAN]
        if _FORMULA.match(rest) or _NEGATED.match(rest) or re.match(r"[ \t]*[?？]", rest):
            return False
        if closing[:1] in ("_", "*") and closing[0] not in opening and re.match(r"[\w{]", rest):
            return False
        if label.isdigit() and ("$" in opening) != ("$" in closing):
            return False  # an amount of money
        is_wrapped = bool(re.search(r"[(\[{<*`\"'“「【$]", opening) and closing)
        is_word = label.islower() or label == "I" or label.isdigit()
        if is_wrapped or not (is_strict or is_word):
            return True
        return bool(_STRICT.match(rest))

    def _several(self, text: str, start: int) -> Named | None:
        """Several labels in place of one, as in "B or C", "A, B", "B (Paris) or C (Rome)"."""
        match = self.labels.at.match(text, start)
        if match is None:
            return None
        end, labels = match.end(), [match[2]]
        while len(labels) < 9 and (more := self.labels.another.match(text, end)):
            if more[2].islower() != match[2].islower() or (
                more[2] in ("a", "I", "i") and not more[1]
            ):
                break
            labels.append(more[2])
            end = more.end()
        if (
            len(labels) == 1
            and match[2].isupper()
            and (listed := self.labels.spaced.match(text, end))
        ):
            more_labels = re.findall(r"(?<!\w)[A-Z](?!\w)", listed[0])
            labels, end = [*labels, *more_labels], listed.end()
        if len(labels) == 1 and (later := self.labels.or_later.match(text[end : end + 160])):
            between = later[0].lower()
            if not re.search(r"\b(?:because|since|as|not|than|neither|whether|so)\b", between):
                labels.append(later[1])
        if len({self.labels.places.get(label.casefold(), label) for label in labels}) < 2:
            return None
        return Named(None, end, f"it names several options: {', '.join(labels)}")

    def _option(self, label: str, end: int, *, is_bare: bool = False) -> Named:
        place = self.labels.places.get(label.casefold())
        if place is None:
            return Named(None, end, f"`{label}` is none of the options {self.options}")
        if is_bare and label.isdigit() and self._texts.get(label, place) != place:
            return Named(None, end, f"`{label}` is an option's label and the text of another")
        return Named(place, end)

    def _with_text(
        self,
        label: str,
        text: str,
        end: int,
        *,
        is_bare: bool = False,
        may_be_initial: bool = False,
    ) -> Named:
        """A label with a text: contradictory if the text is that of another option."""
        said = [self._texts.get(_folded(text[:stop])) for stop in _ends(text)]
        claimed = next((place for place in reversed(said) if place is not None), None)
        named = self._option(label, end, is_bare=is_bare and claimed is None)
        if named.place is None or claimed == named.place:
            return named
        if claimed is not None:
            return Named(None, end, f"it names `{label}` with the text of another option")
        if _WRONG.match(text):
            return Named(None, end, f"it calls `{label}` wrong")
        if may_be_initial and any(name.startswith(f"{label.casefold()}. ") for name in self._texts):
            return Named(None, end, f"`{label}.` also begins the text of an option")
        return named

    def _says(self, text: str, place: int) -> bool:
        return self._texts.get(_folded(text)) == place

    def _stated(self, line: str) -> tuple[int, int] | None:
        """The option whose text a line begins with, up to a sentence's end, and where it ends."""
        best: tuple[int, int] | None = None
        for end in _ends(line):
            place = self._text_of(line[:end])
            if place is not None:
                best = (place, end)
        return best

    def _text_of(self, text: str) -> int | None:
        """The option whose text this is; None where two say the same or it is a label too."""
        folded = _folded(text)
        return None if folded in self.labels.places else self._texts.get(folded)

    def _behind_text(self, line: str, start: int) -> Named | None:
        """An option in brackets that ends a sentence, as in "the answer is Paris (B)."."""
        match = self.labels.after_text.match(line)
        if match is None:
            return None
        label = match[2] or match[3]
        if re.search(
            r"\b(?:not|but|except|or|neither|nor|than|other|wrong|incorrect|instead|vs|if)\b|n['’]t\b|[?=]",
            match[1],
        ):
            return None
        if self.labels.in_brackets.search(match[1]):
            return None
        return self._with_text(label, match[1], start + match.end())


@functools.lru_cache(maxsize=64)
def _labels(labels: tuple[str, ...]) -> Labels:
    return Labels(Options(labels))


@functools.lru_cache(maxsize=256)
def reader(options: Options) -> Reader:
    """The reader of a question's options, cached for the latest questions."""
    return Reader(options)


def _in_other_scripts(names: dict[str, int]) -> dict[str, int]:
    """Letters of other alphabets that can mean only one of A to D."""
    return {other: names[name] for other, name in _OTHER_SCRIPTS.items() if name in names}


def _unique(texts: list[str]) -> dict[str, int]:
    return {text: n for n, text in enumerate(texts) if text and texts.count(text) == 1}


def _folded(text: str) -> str:
    """A text without its decoration: case, spaces, markup, and the full stop at its end."""
    text = unicodedata.normalize("NFC", _DROPPED.sub("", text[:2000])).casefold()
    text = " ".join(_SPACES.sub(" ", text).split()).strip(" *_`\"'“”‘’«»")
    text = text.rstrip(".。 ").strip(" *_`\"'“”‘’«»")
    return _AROUND_SIGN.sub(r"\1", text.replace(r"\dfrac", r"\frac").replace(r"\tfrac", r"\frac"))


def _ends(line: str) -> list[int]:
    """Where a sentence that begins the line may end."""
    ends = [
        match.start()
        for match in re.finditer(
            r"[.!;。；](?:[\s*\"'”)]|$)|,? (?:because|since)\b|,?[ \t]+\(", line
        )
    ]
    return [*ends[:20], len(line)]

r"""Answers that are words, letters of options or dates: `an ellipse`, `(C)\\ 42`, `June 20`."""

import re

from rlvr_cli.verification.mathematics import numerals, plain, synonyms

_LIST = re.compile(r"\s*(?:,\s*(?:and\s+)?|;|\band\b)\s*")
_TUPLE = re.compile(r"\([^()]*,[^()]*\)")
_ARTICLE = re.compile(
    r"^(?:on(?= [a-z]+day$)|an?|the|all)\s+(?!and\b|but\b|except\b)(?=[a-z]{3}|[xyz]-)"
)
_MONTH = re.compile(
    r"\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec|january|february|march|april|june"
    r"|july|august|september|october|november|december)\b"
)
_ORDINAL = re.compile(r"\b([0-9]{1,2})\s*(?:\^\s*\{?\s*)?(?:st|nd|rd|th)\b\}?")
_DAY = re.compile(r"\b[0-9]{1,4}\b")
_SHORT = frozenset(["no", "yes", "on", "off", "odd", "all", "any", "one", "two", "six", "ten"])
_ISO = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_SENTENCE = re.compile(
    r"(?:the|it|this|that|these|they|he|she)\b[a-z' ]{0,40}?(?:is|are|was|must be) ([a-z' -]+)"
)
_VERDICTS = frozenset(["yes", "no", "true", "false"])
_TRUTHS = {"true": "yes", "false": "no"}
_REASONED = re.compile(r"(yes|no|true|false)\s*[,.;:(—–-]\s*(.*)", re.DOTALL)
_DOUBTED = re.compile(
    r"\b(?:yes|no|not|true|false|but|or|if|unless|maybe|perhaps|only|except|however|wait|doubt"
    r"|cannot|wrong|incorrect|sometimes|depends)\b|n['’]t\b|\?"
)
_NO_THING = re.compile(
    r"\b(?:more|less|fewer|least|most|pairs?|couples?|squared|cubed|factorial|halves|point|percent"
    r"|times|each|th|and|or|not|to|than|of|in|by|over|plus|minus|out|dozens?|tens|hundreds|thousands)\b"
)
_OPTION = re.compile(r"\(?([A-J])\)?")
_WITH_TEXT = re.compile(r"(?:\(([A-J])\)|([A-J])\s?[).:])\s*(\S.*)", re.DOTALL)
_OTHER_OPTION = re.compile(r"(?<![A-Za-z])[A-J](?![A-Za-z])|\b(?:or|and|not|wrong|incorrect)\b")


def equal(gold: str, answer: str) -> bool | None:
    """Whether two texts of words are the same; None if one has mathematics in it."""
    is_words, other = plain.is_words(gold), plain.is_words(answer)
    dates = [
        _ISO.sub(_date, _ORDINAL.sub(r"\1", plain.unwrapped(t).casefold())) for t in (gold, answer)
    ]
    if all(map(_MONTH.search, dates)) and all(map(_DAY.search, dates)):
        left, right = map(_parts_of_date, dates)
        return left == right
    if not is_words and not other:
        return None
    words, others = map(_folded, (gold, answer))
    if is_words and other and {words, others} & _VERDICTS:
        words, others = (_TRUTHS.get(text, text) for text in (_verdict(words), _verdict(others)))
    if words == others:
        return not _is_other_letter(gold, answer)
    if synonyms.are_two_of_a_kind(words, others):
        return True
    if numerals.spelled(words) or numerals.spelled(others):
        return None
    if not (is_words and other):
        return _equal_counted(gold, answer, words, others)
    left, right = (
        sorted(part.strip("() ") for part in _LIST.split(text) if part) for text in (words, others)
    )
    is_tuple = _TUPLE.fullmatch(plain.unwrapped(gold))
    if len(left) > 1 and left == right and not is_tuple:
        return True
    letters, more = (text.replace(" ", "") for text in (gold, answer))
    if {words, others} & _SHORT:
        return False
    if all(
        t.isalpha() and (len(t) < 4 and not (t.isupper() and len(t) > 2)) for t in (letters, more)
    ):
        return None  # products of variables
    return False


def _equal_counted(gold: str, answer: str, words: str, others: str) -> bool | None:
    """Whether a number is the one that words count things by, as in "seven days"."""
    for text, said in ((answer, words), (gold, others)):
        number = numerals.number(text)
        head, _, thing = said.rpartition(" ")
        counted = (
            numerals.spelled(head) if number and thing and not _NO_THING.search(said) else None
        )
        if number and counted:
            return number.value == counted.value
    return None


_NAMED = re.compile(
    r"(?:\(?[A-Z][a-z]?(?:_[0-9]+)?\)?(?:_[0-9]+)?)+(?:\^[0-9]*[-+])?"  # H_2O, Ca(OH)_2
    r"|[A-Z]{2,}\\(?:parallel|perp|cong|sim)[A-Z]{2,}"
)


def named(text: str) -> str:
    r"""A chemical formula, or figures such as `AB \parallel CD`, without spaces; empty for none."""
    if "_" not in text and "\\" not in text:
        return ""
    bare = re.sub(r"\\(?:text|mathrm|mathit|rm|triangle)(?![a-z])|[\s{}]", "", text)
    return bare if _NAMED.fullmatch(bare) and not bare.isalnum() else ""


def _parts_of_date(date: str) -> list[str]:
    """The words and numbers of a date, with months by three letters: `jan 1` of "January 1st"."""
    parts = re.findall(r"\w+", date)
    months = [part[:3] if _MONTH.fullmatch(part) else part for part in parts]
    return sorted(part for part in months if part not in ("of", "the", "on"))


def _is_other_letter(gold: str, answer: str) -> bool:
    """Whether two letters differ in case and are no letters of options: x is not X."""
    letters = [plain.unwrapped(text) for text in (gold, answer)]
    return letters[0] != letters[1] and all(
        len(letter) == 1 and letter.upper() > "J" for letter in letters
    )


def _folded(text: str) -> str:
    words = plain.unwrapped(text).casefold().strip('()"?! .')
    if words[:1] == words[-1:] == "'":
        words = words.strip("'")
    said = _SENTENCE.fullmatch(words)
    if said and not _DOUBTED.search(words.removesuffix(said[1] if said[1] in _VERDICTS else "")):
        words = said[1]
    return synonyms.folded(_ARTICLE.sub("", synonyms.folded(words)))


def _date(match: re.Match[str]) -> str:
    """`2024-01-05` as "2024 jan 5"; as it is where there is no such month."""
    month = int(match[2])
    return f"{match[1]} {_MONTHS[month - 1]} {int(match[3])}" if 1 <= month <= 12 else match[0]


def _verdict(words: str) -> str:
    """The first word of "yes, it is even"; all words where what follows may change it."""
    reasoned = _REASONED.fullmatch(words)
    return reasoned[1] if reasoned and not _DOUBTED.search(reasoned[2]) else words


def same_option(gold: str, answer: str) -> bool:
    r"""Whether one is just an option's letter and the other that letter with its text."""
    gold, answer = plain.unwrapped(gold), plain.unwrapped(answer)
    for one, other in ((gold, answer), (answer, gold)):
        letter, labelled = _OPTION.fullmatch(one), _WITH_TEXT.fullmatch(other)
        if letter and labelled and not _OTHER_OPTION.search(labelled[3]):
            return letter[1] == (labelled[1] or labelled[2])
    return False

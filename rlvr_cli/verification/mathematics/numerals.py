r"""Numbers read exactly: `1,234.5`, `1 1/2`, `0.1\overline{6}`, `1.5e3`, `twenty-one`, `1010_2`."""

import re
from dataclasses import dataclass
from fractions import Fraction

MAX_DIGITS = 400  # of a number that is read exactly

_GROUPS = re.compile(r"^[-+]?[0-9]{1,3}(?:(?:,|\{,\})[0-9]{3})+(?:\.[0-9]+)?$")
_GROUPED = (  # 12,34,567 and 1_234_567 and 1.234.567 and 1.234,5
    (re.compile(r"^[-+]?[0-9]{1,2}(?:,[0-9]{2})+,[0-9]{3}(?:\.[0-9]+)?$"), ","),
    (re.compile(r"^[-+]?[0-9]{1,3}(?:_[0-9]{3}){2,}$"), "_"),
    (re.compile(r"^[-+]?[0-9]{1,3}(?:\.[0-9]{3}){2,}(?:,[0-9]+)?$"), "."),
    (re.compile(r"^[-+]?[1-9][0-9]{0,2}(?: [0-9]{3})+,[0-9]{1,2}$"), " "),
    (re.compile(r"^[-+]?[1-9][0-9]{0,2}\.[0-9]{3},[0-9]{1,2}$"), "."),
)
_COMMA_POINT = re.compile(r"^([-+]?[0-9]+)\{,\}([0-9]+)$")
_SPACED = re.compile(r"^[-+]?[0-9]{1,3}(?: [0-9]{3})+(?:\.[0-9]+)?$")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_SCIENTIFIC = re.compile(
    rf"({_NUMBER.pattern})\s*(?:[eE]|(?:\\times|\\cdot|\*|x)\s*10\s*\^)\s*"
    r"\{?\s*([-+]?[0-9]{1,3})\s*\}?"
)
_SLASH = re.compile(rf"({_NUMBER.pattern})\s*/\s*([0-9]+(?:\.[0-9]+)?)")
_OVER = (
    r"\\[dtc]?frac\s*(?:\{\s*([-+]?[0-9.]+)\s*\}|([0-9]))\s*(?:\{\s*([-+]?[0-9.]+)\s*\}|([0-9]))"
)
_BRACED_GROUPS = re.compile(r"\{([0-9]{1,3}(?:,[0-9]{3})+)\}")
_FRAC = re.compile(r"([-+]?)\s*" + _OVER)
_MIXED = re.compile(r"([-+]?)\s*([0-9]+)\s*" + _OVER)
_MIXED_SLASH = re.compile(r"([-+]?)\s*([0-9]+)\s+([0-9]+)\s*/\s*([0-9]+)")
_BASE = re.compile(r"([0-9A-Za-z]+)\s*_\s*\{?\s*([0-9]{1,2})\s*\}?")
_SET_DIGITS = re.compile(r"\\(?:text|mathrm)\s*\{\s*([0-9A-Za-z]+)\s*\}\s*_")
_IN_BASE = re.compile(
    r"\s*(?:\\(?:text|mathrm)\s*\{\s*)?\(?(?:\s*in)?\s*\bbase[\s-]*\}?[\s_]*\{?"
    r"\s*([0-9]{1,2}|[a-z]+)\s*\)?\}*$|_\s*\{?\s*\\(?:text|mathrm)\s*\{\s*base\s*"
    r"([0-9]{1,2}|[a-z]+)?\s*\}\s*([0-9]{1,2})?\s*\}?$"
)
_PREFIXED = re.compile(r"0(?:x([0-9A-Fa-f]+)|b([01]+)|o([0-7]+))")
_INDEXED = re.compile(r"-?\s*\(?[0-9][0-9A-Za-z]*\)?\s*_\s*\{?\s*[0-9]+\s*\}?")
_HEXADECIMAL = re.compile("[A-F]{2,}|[a-f]{2,}")
_NAMED_BASE = re.compile(r"([0-9A-Za-z]+)\s*_\s*\{?\s*(?:\\(?:text|mathrm)\s*\{)?\s*([a-z]+)\s*\}*")
_REPEATING = re.compile(
    r"([-+]?)([0-9]*)\.([0-9]*)(?:\\(?:overline|bar|dot|overbar)\s*(?:\{\s*([0-9]+)\s*\}|([0-9]))"
    r"|\(([0-9]+)\))"
)
_DOTTED = re.compile(r"([-+]?)([0-9]*)\.([0-9]*)\\dot\s*\{?([0-9])\}?([0-9]*)\\dot\s*\{?([0-9])\}?")
_ENDLESS = re.compile(r"([-+]?)([0-9]*)\.([0-9]*?)([0-9]{1,6}?)\4{2,}\s*\\ldots")
_SPELLED = re.compile(r"[a-zA-Z]+(?:[\s-]+[a-zA-Z]+)*")
_WORDS = re.compile(r"[a-z]+")

_UNITS = dict(
    zip(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
        ],
        range(20),
        strict=True,
    )
)
_TENS = dict(
    zip(
        ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"],
        range(20, 100, 10),
        strict=True,
    )
)
SCALES = {
    "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12,
    "quadrillion": 10**15, "dozen": 12, "gross": 144, "lakh": 10**5, "crore": 10**7,
    "mn": 10**6, "bn": 10**9, "googol": 10**100, "myriad": 10**4,
}  # fmt: skip
_PARTS = {
    name + plural: parts
    for parts, name in enumerate(
        ["third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"], start=3
    )
    for plural in ("", "s")
} | {"half": 2, "halves": 2, "quarter": 4, "quarters": 4}
BASES = {"binary": 2, "octal": 8, "hex": 16, "hexadecimal": 16, **_UNITS}


@dataclass(frozen=True)
class Number:
    """A number exactly, and whether it was written as a decimal, which may be rounded."""

    value: Fraction
    is_decimal: bool


def number(text: str) -> Number | None:
    """The number that the text is, exactly; None for anything else, or beyond MAX_DIGITS."""
    if not text or len(text) > MAX_DIGITS or not text.isascii():
        return None
    text = _BRACED_GROUPS.sub(lambda match: match[0].replace(",", ""), text)
    if _GROUPS.match(text):
        text = text.replace("{,}", "").replace(",", "")
    elif _SPACED.match(text):
        text = text.replace(" ", "")
    elif match := _COMMA_POINT.match(text):
        text = f"{match[1]}.{match[2]}"
    for pattern, mark in _GROUPED:
        if pattern.match(text):
            text = text.replace(mark, "").replace(",", ".")
    if _NUMBER.fullmatch(text):
        return Number(Fraction(text), "." in text)
    if text[0].isalpha():
        return spelled(text)
    if match := _SCIENTIFIC.fullmatch(text):
        return Number(Fraction(match[1]) * Fraction(10) ** int(match[2]), True)
    if match := _SLASH.fullmatch(text):
        return _quotient(match[1], match[2])
    if match := _FRAC.fullmatch(text):
        return _signed(match[1], _quotient(match[2] or match[3], match[4] or match[5]))
    if match := _MIXED.fullmatch(text):
        return _mixed(match[1], match[2], match[3] or match[4], match[5] or match[6])
    if match := _MIXED_SLASH.fullmatch(text):
        return _mixed(match[1], match[2], match[3], match[4])
    return _repeating(text)


def _quotient(above: str, below: str) -> Number | None:
    try:
        return Number(Fraction(above) / Fraction(below), "." in above + below)
    except (ValueError, ZeroDivisionError):
        return None


def _signed(sign: str, size: Number | None) -> Number | None:
    return size and Number(-size.value if sign == "-" else size.value, size.is_decimal)


def _mixed(sign: str, integer: str, above: str, below: str) -> Number | None:
    """An integer and a proper fraction; of any other it is not known what was meant."""
    part = _quotient(above, below)
    if part is None or part.is_decimal or not 0 <= part.value < 1:
        return None
    return _signed(sign, Number(Fraction(integer) + part.value, False))


def _repeating(text: str) -> Number | None:
    """A decimal with a period, marked by a line, dots, brackets or by writing it three times."""
    text = text.replace(" ", "")
    if match := _DOTTED.fullmatch(text):
        sign, integer, start = match[1], match[2], match[3]
        period = match[4] + match[5] + match[6]
    elif match := _REPEATING.fullmatch(text):
        sign, integer, start = match[1], match[2], match[3]
        period = match[4] or match[5] or match[6]
    elif match := _ENDLESS.fullmatch(text):
        sign, integer, start, period = match.groups()
    else:
        return None
    ten = 10 ** len(start)
    value = Fraction(int(integer + start or "0"), ten)
    value += Fraction(int(period), (10 ** len(period) - 1) * ten)
    return _signed(sign, Number(value, False))


def spelled(text: str) -> Number | None:
    """The number that words are, as in `two hundred and five`; None for other words."""
    if not _SPELLED.fullmatch(text):
        return None
    words = _WORDS.findall(text.casefold())
    if words[0] in ("minus", "negative") and len(words) > 1:
        return _signed("-", spelled(" ".join(words[1:])))
    if words[0] in ("a", "an"):
        words[0] = "one"
    if len(words) == 2 and words[1] in _PARTS and words[0] in _UNITS:
        return Number(Fraction(_UNITS[words[0]], _PARTS[words[1]]), False)
    total, current, last = 0, 0, ""
    for word in words:
        if word == "and" and last in SCALES:
            continue
        if word in _UNITS and (not last or last in _TENS or last in SCALES):
            current += _UNITS[word]
        elif word in _TENS and (not last or last in SCALES):
            current += _TENS[word]
        elif word == "hundred" and current:
            current *= 100
        elif word in SCALES and current:
            total, current = total + current * SCALES[word], 0
        else:
            return None
        last = word
    return Number(Fraction(total + current), False) if last else None


def in_base(text: str) -> tuple[str, int] | None:
    """The digits and the base of a numeral such as `1010_2`; None if it is none."""
    if text.startswith("-") and (positive := in_base(text[1:].strip())):
        return f"-{positive[0]}", positive[1]
    if prefixed := _PREFIXED.fullmatch(text):
        base = 16 if prefixed[1] else 2 if prefixed[2] else 8
        return (prefixed[1] or prefixed[2] or prefixed[3]).upper().lstrip("0") or "0", base
    if "base" in text:
        text = _IN_BASE.sub(lambda m: f"_{m[1] or m[2] or m[3] or ''}", text)
    bare = _SET_DIGITS.sub(r"\1_", text.replace("(", "").replace(")", ""))
    base = 0
    if match := _BASE.fullmatch(bare):
        base = int(match[2])
    elif match := _NAMED_BASE.fullmatch(bare):
        base = BASES.get(match[2], 0)
    if not match or not 2 <= base <= 36:
        return None
    try:
        int(match[1], base)
    except ValueError:
        return None
    if match[1].isalpha() and not (base == 16 and _HEXADECIMAL.fullmatch(match[1])):
        return None  # x_1, a_16
    return match[1].upper().lstrip("0") or "0", base


def is_indexed(text: str) -> bool:
    """Whether a text is digits with an index, as in `5_2`: no number where it is no base of it."""
    return bool(_INDEXED.fullmatch(text))

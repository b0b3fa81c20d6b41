r"""Answers as plain text: what does not change a value taken off, and numbers read exactly."""

import re
from dataclasses import dataclass
from fractions import Fraction

MAX_DIGITS = 400  # of a number that is read exactly

_TEXT = r"\\(?:text|textbf|textit|textrm|textnormal|mathrm|mathbf|mbox|operatorname)\s*"
_WRAPPED = re.compile(_TEXT + r"\{([^{}]*)\}")
_SPACES = re.compile(r"(?<!\\)\\[,;:!> ]|~|\\quad|\\qquad|\s+")
_ORDER = re.compile(r"\\([lg])t(?![a-zA-Z])")
_THIN_COMMA = re.compile(r",\s*\\[!,]\s*")
_CONSTANT = re.compile(r"\\mathrm\s*(?:\{\s*([ei])\s*\}|([ei])(?![a-zA-Z]))")
_SIZES = re.compile(r"\\(?:left|right|big|Big|bigg|Bigg|displaystyle|limits)(?![a-zA-Z])")
_DOUBLED = re.compile(
    r"\\\\(?=(?:[dt]?frac|sqrt|left|right|text|pi|cdot|times|leq?|geq?|in|cup|infty|boxed)\b)"
)
_DELIMITERS = re.compile(r"^(?:\$\$?|\\\(|\\\[)|(?:\$\$?|\\\)|\\\])$")
_DEGREES = re.compile(r"\^\s*\{?\s*\\circ\s*\}?|°|\\degree|\s+degrees?$")
_PERCENT = re.compile(r"\\?%|\s*\b(?:percent(?:age)?|pct)\b\.?")
_MONEY = re.compile(r"\\?\$")
_GROUPS = re.compile(r"^[-+]?[0-9]{1,3}(?:(?:,|\{,\})[0-9]{3})+(?:\.[0-9]+)?$")
_SPACED = re.compile(r"^[-+]?[0-9]{1,3}(?: [0-9]{3})+(?:\.[0-9]+)?$")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_SCIENTIFIC = re.compile(
    rf"({_NUMBER.pattern})\s*(?:[eE]|(?:\\times|\\cdot|\*|×|x)\s*10\s*\^)\s*"
    r"\{?\s*([-+]?[0-9]{1,3})\s*\}?"
)
_SLASH = re.compile(rf"({_NUMBER.pattern})\s*/\s*([0-9]+(?:\.[0-9]+)?)")
_FRAC = re.compile(
    r"([-+]?)\s*\\[dtc]?frac\s*(?:\{\s*([-+]?[0-9.]+)\s*\}|([0-9]))\s*(?:\{\s*([-+]?[0-9.]+)\s*\}|([0-9]))"
)
_MIXED = re.compile(
    r"([-+]?[0-9]+)\s*\\[dtc]?frac\s*(?:\{\s*([0-9]+)\s*\}|([0-9]))\s*(?:\{\s*([0-9]+)\s*\}|([0-9]))"
)
_BASE = re.compile(r"([0-9A-Za-z]+)\s*_\s*\{?\s*([0-9]{1,2})\s*\}?")
_POWER = r"(?:\^\s*\{?\s*-?[0-9]\s*\}?|[²³])"
_SET_UNIT = re.compile(
    r"(?P<quantity>.*[0-9})\]])\s*\\(?:text|textbf|textrm|textnormal|textit|mathrm|mathbf|mbox)\s*"
    rf"\{{(?P<unit>[^{{}}]*[a-zA-Z][^{{}}]*)\}}\s*(?P<power>{_POWER}?)"
)
_WORDS = re.compile(
    r"(?P<quantity>[-+]?[0-9][0-9.,/]*)(?:\s+(?=[a-zA-Z]{2})|(?=(?:[cmk]?m|k?g|ft|in|mi|mph|s|h|hr)\b))"
    rf"(?P<unit>[a-zA-Z][a-zA-Z ./,'-]*)(?P<power>{_POWER}?)"
)
_NO_UNIT = {"e", "i", "or", "and", "if", "for", "pi", "sqrt", "mod", "to", "cdot", "times"}


@dataclass(frozen=True)
class Number:
    """A number exactly, and whether it was written as a decimal, which may be rounded."""

    value: Fraction
    is_decimal: bool


def clean(text: str) -> str:
    """The answer without delimiters, sizes, spaces of LaTeX, and the final full stop.

    Commands whose backslash was doubled on the way have one again.
    """
    text = (
        _DOUBLED.sub(r"\\", text.strip()).replace("−", "-").replace("–", "-").replace("\\\n", " ")
    )
    for _ in range(2):
        text = _DELIMITERS.sub("", text.strip().rstrip(".").strip())
    text = _CONSTANT.sub(lambda match: f" {match[1] or match[2]}", text)
    text = _SIZES.sub("", _THIN_COMMA.sub(",", text)).replace("!=", "\\neq ")
    text = _ORDER.sub(lambda sign: {"l": "<", "g": ">"}[sign[1]], text)
    return _SPACES.sub(" ", text).strip().rstrip("\\").strip()


def unwrapped(text: str) -> str:
    r"""The text with `\text{...}` and its kin replaced by what they hold."""
    for _ in range(3):
        text = _WRAPPED.sub(r" \1 ", text)
    return _SPACES.sub(" ", text).strip()


def without_degrees(text: str) -> str:
    return _DEGREES.sub("", text).strip()


def without_percent(text: str) -> tuple[str, bool]:
    """The text without a percent sign, and whether it had one."""
    bare = _PERCENT.sub("", text).strip()
    return bare, bare != text


def without_money(text: str) -> str:
    return _MONEY.sub("", text).strip()


def number(text: str) -> Number | None:
    """The number that the text is, exactly; None for anything else, or beyond MAX_DIGITS."""
    if not text or len(text) > MAX_DIGITS or not text.isascii():
        return None
    if _GROUPS.match(text):
        text = text.replace("{,}", "").replace(",", "")
    elif _SPACED.match(text):
        text = text.replace(" ", "")
    if _NUMBER.fullmatch(text):
        return Number(Fraction(text), "." in text)
    if match := _SCIENTIFIC.fullmatch(text):
        return Number(Fraction(match[1]) * Fraction(10) ** int(match[2]), True)
    if match := _SLASH.fullmatch(text):
        return _quotient(match[1], match[2])
    if match := _FRAC.fullmatch(text):
        quotient = _quotient(match[2] or match[3], match[4] or match[5])
        sign = -1 if match[1] == "-" else 1
        return quotient and Number(sign * quotient.value, quotient.is_decimal)
    if match := _MIXED.fullmatch(text):
        quotient = _quotient(match[2] or match[3], match[4] or match[5])
        integer = Fraction(match[1])
        sign = -1 if match[1].startswith("-") else 1
        return quotient and Number(integer + sign * quotient.value, False)
    return None


def _quotient(above: str, below: str) -> Number | None:
    try:
        return Number(Fraction(above) / Fraction(below), "." in above + below)
    except (ValueError, ZeroDivisionError):
        return None


def in_base(text: str) -> tuple[str, int] | None:
    """The digits and the base of a numeral such as `1010_2`; None if it is none."""
    match = _BASE.fullmatch(text.replace("(", "").replace(")", ""))
    if not match or not 2 <= int(match[2]) <= 36:
        return None
    try:
        int(match[1], int(match[2]))
    except ValueError:
        return None
    return match[1].upper().lstrip("0") or "0", int(match[2])


_SYNONYMS = {
    name: names.split()[0]
    for names in (
        "cm centimeter centimetre",
        "m meter metre",
        "mm millimeter millimetre",
        "km kilometer kilometre",
        "g gram",
        "kg kilogram",
        "in inch inches",
        "ft foot feet",
        "mi mile",
        "s sec second",
        "min minute",
        "h hr hour",
        "l liter litre",
        "n newton",
        "mph miles/hour",
        "dollar usd",
        "unit units",
    )
    for name in names.split()
}


def split_unit(text: str) -> tuple[str, str]:
    """A quantity and its unit, the unit in one spelling; an empty unit if there is none."""
    match = _SET_UNIT.fullmatch(text) or _WORDS.fullmatch(text)
    if not match or (match["unit"].split()[:1] and match["unit"].split()[0].lower() in _NO_UNIT):
        return text, ""
    return match["quantity"].strip().rstrip(",. "), _unit(match["unit"] + match["power"])


def _unit(text: str) -> str:
    text = re.sub(r"\^\s*\{?\s*(-?[0-9])\s*\}?", r"^\1", text.lower().replace("²", "^2"))
    text = re.sub(r"\b(?:square|sq\.?)\s+(\w+)", r"\1^2", text.replace("³", "^3"))
    text = re.sub(r"\bcubic\s+(\w+)", r"\1^3", text)
    words = re.findall(r"[a-zµμ]+|\^-?[0-9]|/", text)
    return "".join(_SYNONYMS.get(w) or _SYNONYMS.get(w.removesuffix("s"), w) for w in words)

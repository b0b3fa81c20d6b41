r"""A quantity and its unit: `5 m/s`, `5\,\mathrm{m\,s^{-1}}`, `3 million dollars`, `6 apples`."""

import functools
import importlib.util
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from rlvr_cli.errors import UsageError
from rlvr_cli.verification.mathematics import numerals, plain

_POWER = r"(?:\^\s*\{?\s*-?[0-9]\s*\}?)"
_SET = r"\\(?:text|textbf|textrm|textnormal|textit|mathrm|mbox|operatorname)\s*\{[^{}]*\}"
_SET_UNIT = re.compile(
    rf"(?P<quantity>.*?[0-9}})\]!i])\s*(?P<unit>(?:{_SET}\s*{_POWER}?\s*(?:/|\\cdot|\*|\\times)?\s*)+)"
)
_QUOTIENT = re.compile(rf"\\[dt]?frac\s*\{{\s*({_SET})\s*\}}\s*\{{\s*({_SET}\s*{_POWER}?)\s*\}}")
_WITH_POWERS = re.compile(
    r"(?P<quantity>.*?(?:[0-9})\]]|\\pi))\s*\\(?:text|mathrm|mbox|textrm)\s*"
    r"\{(?P<unit>(?:[^{}]|\^\s*\{[^{}]*\})*[a-zA-Z](?:[^{}]|\^\s*\{[^{}]*\})*)\}"
    rf"(?P<power>\s*{_POWER}?)"
)
_PLAIN_NUMBER = (
    r"[-+]?(?:[0-9][0-9.,/]*|\.[0-9]+)(?: [0-9]+/[0-9]+| ?\\frac\{?[0-9]\}?\{?[0-9]\}?)?"
)
_WORDS = re.compile(
    rf"(?P<quantity>{_PLAIN_NUMBER})(?:\s+(?=[a-zA-Z]{{2}}|[ms]/)|(?=(?:[cmkdn]?m|[mk]?g|ft|in|mi|mph|km/h"
    r"|kmh|m/s|s|h|hr|sec|min|mL|ml|kJ|kW|Hz|Pa|mol)\b))"
    rf"(?P<unit>[a-zA-Z](?:[a-zA-Z ./,'()*-]|{_POWER})*)"
)
_KNOWN_BEHIND = re.compile(
    r"(?P<quantity>.*(?:[0-9})\]]|(?<![a-zA-Z])pi))\s+"
    r"(?P<unit>[a-zA-Z][a-zA-Z /]*(?:\^\s*\{?-?[0-9]\}?)?)"
)
# Words that are part of an expression or sentence, after which there is no unit.
_NO_UNIT = frozenset(
    [
        "e",
        "i",
        "or",
        "and",
        "if",
        "for",
        "pi",
        "sqrt",
        "mod",
        "modulo",
        "to",
        "cdot",
        "times",
        "plus",
        "minus",
        "over",
        "divided",
        "than",
        "not",
        "is",
        "are",
        "when",
        "where",
        "with",
        "infinity",
        "infty",
        "sin",
        "cos",
        "tan",
        "log",
        "ln",
        "xor",
        "by",
        "x",
        "y",
        "z",
        "choose",
        "half",
        "point",
    ]
)
_POWERS = {"squared": "({})^2", "cubed": "({})^3", "factorial": "({})!"}
_PARTS = {
    "halves": 2, "thirds": 3, "fifths": 5, "sixths": 6, "sevenths": 7, "eighths": 8, "ninths": 9,
    "tenths": 10, "tenth": 10, "hundredths": 100, "hundredth": 100, "thousandths": 1000,
    "thousandth": 1000, "millionths": 10**6, "twelfths": 12, "sixteenths": 16,
}  # fmt: skip
_SYNONYMS = {
    name: names.split()[0]
    for names in (
        "cm centimeter centimetre", "m meter metre", "mm millimeter millimetre",
        "km kilometer kilometre", "nm nanometer nanometre", "g gram gm gramme", "kg kilogram kilo",
        "mg milligram", "in inch inches", "ft foot feet", "mi mile", "yd yard", "lb pound lbs",
        "oz ounce", "s sec second", "min minute mins", "h hr hour hrs", "l liter litre",
        "ml milliliter millilitre", "gal gallon", "N newton", "J joule", "W watt", "V volt",
        "A ampere amp", "Hz hertz", "Pa pascal", "K kelvin", "C coulomb", "mol mole", "ohm Omega",
        "$ dollar usd buck", "cent ¢ c", "eur euro", "day d", "week wk", "month mo",
        "year yr", "unit units", "rad radian", "kj kilojoule", "kw kilowatt", "eV electronvolt",
        "T tesla", "kPa kilopascal", "cal calorie", "acre", "hectare ha", "knot", "bit", "byte",
        "MW megawatt", "mW milliwatt", "GW gigawatt", "MJ megajoule", "kHz kilohertz",
        "MHz megahertz", "GHz gigahertz", "mA milliampere milliamp", "mV millivolt", "kV kilovolt",
    )
    for name in names.split()
}  # fmt: skip
_WRITTEN = {
    "mph": "mi/h", "kmph": "km/h", "kmh": "km/h", "kph": "km/h", "sqft": "ft^2", "sqm": "m^2",
    "cc": "cm^3", "mps": "m/s",
}  # fmt: skip
_FACTOR = re.compile(r"(/|\bper\b)|([a-zA-Zµμ$¢]+)(?:\^?\s*\{?\s*(-?[0-9]+)\s*\}?)?|([()])")
_UNIT_WORD = re.compile(r"[aeiouy]", re.IGNORECASE)

Unit = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Quantity:
    """A number's text without its unit and words that scale it; `unit` has none where empty."""

    number: str
    unit: Unit = ()
    said: str = ""  # the unit as it was written


@functools.lru_cache(maxsize=4096)
def split(text: str) -> Quantity:
    """A text as a number and a unit; as it is where it has no unit that is read."""
    text = _QUOTIENT.sub(r"\1/\2", text)
    match = _WITH_POWERS.fullmatch(text) or _SET_UNIT.fullmatch(text) or _WORDS.fullmatch(text)
    if match is None:
        match = _KNOWN_BEHIND.fullmatch(text)
        if match is None or not _all_known(match["unit"]):
            return Quantity(text)
    number = match["quantity"].strip().rstrip(",. ")
    said = match["unit"] + (match.groupdict().get("power") or "")
    words = plain.unwrapped(said.replace(r"\cdot", " ").replace(r"\times", " "))
    words = re.sub(r"\s+\^", "^", words)
    number, rest = _scaled(number, words.split())
    if _NO_UNIT & {word.strip("(),.").lower() for word in rest} or number.endswith(("_", "^")):
        return Quantity(text)
    rest = [word for word in rest if word.lower() not in ("of", "the")]
    if not rest:
        return Quantity(number)
    if any(map(_HEDGE.search, rest)):
        return Quantity(text)
    if match.re in (_WORDS, _KNOWN_BEHIND) and not _is_unit(rest):
        return Quantity(text)
    said = " ".join(rest)
    return Quantity(number, _unit(said), said)


_LETTERS = re.compile(
    rf"(.*[0-9}}\])])\s*(?<![_^])((?:[a-zA-Zµ]{{1,3}}{_POWER}?[\s/]*)+)", re.DOTALL
)


def in_letters(text: str, quantity: Quantity, other: Quantity) -> Quantity:
    """A product of letters as the unit that the other side has: `5 m^2` beside 5 square meters."""
    match = None if quantity.unit else _LETTERS.fullmatch(text)
    if match is None or not other.unit:
        return quantity
    as_unit = split(rf"{match[1]}\text{{ {match[2]}}}")
    return as_unit if as_unit.unit == other.unit else quantity


def _scaled(number: str, words: list[str]) -> tuple[str, list[str]]:
    """The number times what the words before its unit say, and the other words."""
    while words:
        word = words[0].lower().strip(",.")
        scale = numerals.SCALES.get(word) or numerals.SCALES.get(word.removesuffix("s"))
        if scale and word != "gross":
            number = _times(number, Fraction(scale))
        elif word in _PARTS:
            number = _times(number, Fraction(1, _PARTS[word]))
        elif word in _POWERS:
            number = _POWERS[word].format(number)
        elif word.strip("()") in ("approximately", "approx", "approx.", "total"):
            pass
        else:
            break
        words = words[1:]
    return number, words


def _times(number: str, scale: Fraction) -> str:
    value = numerals.number(number)
    if value is None:
        return rf"({number})\cdot \frac{{{scale.numerator}}}{{{scale.denominator}}}"
    product = value.value * scale
    if value.is_decimal and product.denominator == 1:
        return f"{product}.0" if scale < 1 else f"{product}"
    return f"{product}"


def _all_known(text: str) -> bool:
    words = [word for word in re.findall(r"[a-zA-Z]+", text) if word not in ("per", "square")]
    return bool(words) and all(len(w) > 1 and known(w) is not None for w in words)


_MEGA = re.compile(r"M[WJLVAPH]\w?")  # a megawatt is no milliwatt


def known(word: str) -> str | None:
    lower = word if _MEGA.fullmatch(word) else word.lower()
    for name in (word, lower, lower.removesuffix("s"), lower.removesuffix("es")):
        if name in _SYNONYMS:
            return _SYNONYMS[name]
        if name in _WRITTEN:
            return name
    return None


def _is_unit(words: list[str]) -> bool:
    """Whether bare words are a unit rather than a product of variables."""
    letters = re.search("[a-zA-Z]+", words[0])
    first = letters[0] if letters else ""
    if known(first) is not None or (first.lower() in ("sq", "cu") and len(words) > 1):
        return True
    return len(first) > 2 and bool(_UNIT_WORD.search(first)) and first not in _ALPHABET


_HEDGE = re.compile(
    r"^\W*[0-9]+\W*$|\b(?:maybe|perhaps|possibly|probably|unless|wrong|incorrect|more|less|fewer|least"
    r"|most|except|tens)\b",
    re.IGNORECASE,
)
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def _unit(text: str) -> Unit:
    """Each unit with its exponent, sorted: m/s, m s^{-1} and `meters per second` alike."""
    if re.fullmatch(r"\s*[cmk]?ms\^?\s*\{?-[0-9]\}?\s*", text):
        text = re.sub(r"(?<=m)s", " s", text)  # meters, no milliseconds
    text = re.sub(r"\b(?:square|sq\.?)\s+([a-zA-Z]+)", r"\1^2", text, flags=re.IGNORECASE)
    text = re.sub(r"\b(?:cubic|cu\.?)\s+([a-zA-Z]+)", r"\1^3", text, flags=re.IGNORECASE)
    text = re.sub(r"([a-zA-Z]+)\s+(?:squared|square)\b", r"\1^2", text, flags=re.IGNORECASE)
    text = re.sub(r"([a-zA-Z]+)\s+cubed\b", r"\1^3", text, flags=re.IGNORECASE)
    for written, meant in _WRITTEN.items():
        text = re.sub(rf"\b{written}\b", meant, text, flags=re.IGNORECASE)
    exponents: dict[str, int] = {}
    sign, is_open = 1, False
    for over, word, power, bracket in _FACTOR.findall(text):
        if over:
            sign = -1
        elif bracket:
            is_open = bracket == "("
        else:
            name = known(word) or (word if _MEGA.fullmatch(word) else _singular(word.lower()))
            exponents[name] = exponents.get(name, 0) + sign * int(power or 1)
            if not is_open and power:
                sign = 1 if sign > 0 else sign
    return tuple(sorted((name, power) for name, power in exponents.items() if power))


_PLURALS = {"people": "person", "children": "child", "men": "man", "women": "woman"}


def _singular(word: str) -> str:
    if word in _PLURALS:
        return _PLURALS[word]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def same(left: Quantity, right: Quantity) -> bool:
    """Whether two quantities have one unit; of `red apples` and `apples` they have."""
    if left.unit == right.unit:
        return True
    names, others = ({name for name, _ in side.unit} for side in (left, right))
    is_thing = all(
        power == 1 and name not in _SYNONYMS.values() for name, power in (*left.unit, *right.unit)
    )
    return is_thing and (names <= others or others <= names)


def check_pint() -> None:
    """Refuses where pint, the extra `units`, is not installed."""
    if importlib.util.find_spec("pint") is None:
        raise UsageError("`math:units=convert` needs pint", "pip install 'rlvr[units]'")


@functools.cache
def _registry() -> Any:
    import pint

    return pint.UnitRegistry(non_int_type=Fraction)


def ratio(left: Quantity, right: Quantity) -> Fraction | None:
    """How many of the right unit one of the left is, by pint; None if neither is the other."""
    pint_units = []
    for side in (left, right):
        text = " * ".join(f"{_PINT.get(name, name)} ** {power}" for name, power in side.unit)
        try:
            pint_units.append(_registry().Quantity(Fraction(1), text))
        except Exception:  # pint raises errors of its own and of tokenize for what is no unit
            return None
    try:
        return Fraction(pint_units[0].to(pint_units[1].units).magnitude)
    except Exception:
        return None


_PINT = {
    "$": "dollar", "in": "inch", "min": "minute", "h": "hour", "N": "newton", "J": "joule",
    "W": "watt", "V": "volt", "A": "ampere", "Pa": "pascal", "K": "kelvin", "C": "coulomb",
    "T": "tesla", "lb": "pound", "oz": "ounce", "l": "liter", "ml": "milliliter", "d": "day",
}  # fmt: skip

"""The last number of a text, exactly; if it may be several numbers or another one, there is none.

It reads signs and digits of any script, thousands with commas, spaces, apostrophes or LaTeX's
marks, fractions and mixed numbers, powers of ten, words such as "million", percentages, money, and
known units. Digits within a word are not a number. Anything else around digits (a range, a date, a
sum, `1,20`, `3x`) makes the last number unknown; an earlier one is not used instead.
"""

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction

_WINDOW = 2000  # characters that are looked at together, from the end of a text
_SHOWN = 40  # characters of a reason
_SIGNS = str.maketrans(
    {sign: "-" for sign in "−‒–﹣－"}
    | {sign: " " for sign in "\u00a0\u202f\u2009"}
    | {sign: "=" for sign in "＝≈→⇒"}
    | {"＋": "+", "％": "%", "．": ".", "，": ", ", "。": ". ", "：": ": ", "⁄": "/"}
)
_VULGAR = re.compile("[¼-¾⅐-⅞]")
_DIGIT = re.compile(r"\d|[¼-¾⅐-⅞]")
_TIDY = (  # a pattern, its spelling, and characters of which every match has one
    (re.compile(r"<<|>>|</?[A-Za-z][^<>\n]{0,60}>|<\|[^<>|\n]{0,40}\|>"), " ", "<>"),
    (re.compile(r"\\[dt]?frac\s?\{\s?(\d{1,50})\s?\}\s?\{\s?(\d{1,50})\s?\}"), r" \1/\2", "\\"),
    (re.compile(r"\\[dt]?frac\s?(\d)\s?(\d)"), r" \1/\2", "\\"),
    (re.compile(r"(?<=\d) ?([kcm]?m|ft|in|yd|mi)\s?\^\s?\{?[23]\}?(?![\w^])"), r" \1", "^"),
    (
        re.compile(r"\s?[×·]\s?10([⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,3})"),
        lambda m: f"e{unicodedata.normalize('NFKC', m[1]).replace('−', '-')}",
        "×·",
    ),
    (
        re.compile(r"\\(?:boxed|fbox|text|textbf|mathbf|mathrm)\s?\{|\\[()\[\]]|\\(?=[%$])"),
        " ",
        "\\",
    ),
    (re.compile(r"(?<=\d)(?:\{,\}|\\,|\\ )(?=\d{3}(?!\d))"), ",", "{\\"),
    (
        re.compile(r"\s?(?:\\times|\\cdot|×|\*|\bx)\s?10\s?\^\s?\{?\s?(-?\d{1,3})\s?\}?(?!\d)"),
        r"e\1",
        "^",
    ),
    (re.compile(r"\$([^$\s]{1,50})\$"), r" \1 ", "$"),
    (re.compile(r"(?<=[^\s>=-])[ \t]{1,9}>[ \t]{0,9}(?=[-$.\d])"), " ≥ ", ">"),
    (re.compile(r"(?<=[^\W\d]):(?=[-+$.\d])|="), " = ", ":="),
    (re.compile(r"(?<![\d.,])(?!\d{3} )(\d{1,3})((?: \d{3})+)(?![\d,])"), "_", " "),
)
# What makes another number of the digits beside it in Chinese, Japanese and Korean.
_EAST = "一-鿿ぁ-ヿ가-힣"
_HAN_BESIDE = re.compile(rf"(?<=[{_EAST}])(?=[-+$\d.])|(?<=[\d%])(?=[{_EAST}])")
_HAN_BEFORE = re.compile(r"(?:不是|不等于|不到|第|负|分之|大于|小于|至少|至多|最少|最多|超过)$")
_HAN_BEHIND = re.compile(
    r"[万亿百十成折半多余几倍以番月日号만억천백번월일]|千(?![克米瓦卡])|分之|点(?=[\d半]|$)"
)
_LEFT, _RIGHT = "([{\"'“”‘’«*_`~#>|¿¡:;,…", ")]}\"'“”‘’»*_`|.,;:!?…$"
_UNITS = (
    "km²?|m[²³]?|cm[²³]?|mm|mi|ft|in|yd|kg|g|mg|lbs?|oz|t|s|secs?|mins?|h|hrs?|ms|mph|kph|km/h|m/s|L|l|"
    "m[lL]|k?Wh?|V|A|mA|[kMG]?Hz|k?J|k?Pa|px|[kKMGT]B|k?cal|mol|°[CF]?|USD|EUR|GBP|€|£|\\$|-[a-z-]+|"
    "/(?:hr|hour|h|day|week|wk|month|mo|year|yr|minute|min|sec|s|kg|g|lb|oz|person|each|item|unit|piece)"
)
_NUMBER = re.compile(
    r"(?P<sign>[-+]?)(?P<money>(?:US)?[$€£¥₹])?(?P<inner>-?)"
    r"(?P<digits>(?:\d{1,3}(?:,\d{3})+|\d{1,3}(?:['’_]\d{3})+|\d{1,100})(?:\.\d{1,100})?|\.\d{1,100})"
    rf"(?:[eE](?P<power>[-+]?\d{{1,3}})|/(?P<under>\d{{1,50}}))?(?P<percent>%)?(?P<unit>{_UNITS})?"
)
_WORD = re.compile(r"[^\W\d_][\w.'’-]*")
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "dozen": 12,
           "trillion": 10**12}  # fmt: skip
_CHANGES = re.compile(
    r"(?:factorial|squared|cubed|pi|π|halves|thirds?|quarters?|fifths?)\b|[-+*/^÷×√][\d(]?"
)
_OPERATORS = {"-", "+", "*", "/", "÷", "×", "^", "√", "±", "<", "≤", "≥", "x", "·", "—", "minus"}


@dataclass(frozen=True)
class Numeral:
    """A number as it is written; its value is None where that is not certain, with the reason."""

    text: str
    value: Fraction | None
    is_percent: bool = False
    reason: str = ""
    is_all: bool = False  # whether the text holds nothing else


def last(text: str) -> Numeral | None:
    """The last number of a text; None if there is none. Linear in the text's length."""
    size = _WINDOW
    while True:
        start = max(0, len(text) - size)
        window = text[start:]
        number = _last_in(window, is_cut=start > 0) if _DIGIT.search(window) else None
        if number or start == 0:
            return number
        size *= 4


def _last_in(text: str, *, is_cut: bool) -> Numeral | None:
    """The last number of a text, whose first word may be cut off."""
    words = _plain(text).split()
    for place in range(len(words) - 1, int(is_cut) - 1, -1):
        chunk = words[place]
        if chunk.isalpha() or not any(map(str.isdigit, chunk)):
            continue
        word = _trimmed(chunk)
        if not _WORD.fullmatch(word):
            return _read(words, place, word)
    return None


def _read(words: list[str], place: int, word: str) -> Numeral:
    """The number at a place among the words of a text."""
    before, first = (words[place - 1] if place else ""), place
    after = words[place + 1 :] if words[place].endswith(word) or words[place][-1:] == "*" else []
    sign = ""
    if _trimmed(before, right="").lower() == "negative" or (
        before in ("-", "minus") and place > 1 and words[place - 2].endswith(("=", "is", ":"))
    ):
        sign, first = "-", place - 1
    elif before in _OPERATORS and not (before == "*" and place == 1):
        return _unsure(f"{' '.join(words[max(0, place - 2) : place])} {word}")
    if before[-1:].isdigit() and (
        word[0] in "-+" or re.fullmatch(r"\d{3} \d{3}", f"{before} {word}")
    ):
        return _unsure(f"{before} {word}")
    if reason := _doubted(words, place, word):
        return _unsure(reason)
    match = _NUMBER.fullmatch(word)
    value = _value(match, sign) if match else None
    if match is None or value is None:
        return _unsure(word)
    if match["under"] and re.fullmatch(r"[-(*$]*\d{1,9}", before):
        number = int(re.sub(r"\D", "", before))
        if value >= 1 or sign or match["sign"]:
            return _unsure(f"{before} {word}")
        value = -(number + value) if "-" in before else number + value
        word, first = f"{before.lstrip('(*$')} {word}", place - 1
    is_percent, stop = bool(match["percent"]), place + 1
    if after:
        following = _trimmed(after[0]).lower()
        if following in _SCALES and not is_percent:
            value, word, stop = value * _SCALES[following], f"{word} {following}", stop + 1
        elif following in ("%", "percent"):
            is_percent, word, stop = True, f"{word} {following}", stop + 1
        elif _HAN_BEHIND.match(following) or (_CHANGES.match(following) and following != "-"):
            return _unsure(f"{word} {following}")
    return Numeral(
        f"negative {word}" if sign else word,
        value,
        is_percent,
        is_all=first == 0 and stop == len(words),
    )


_DENIALS = frozenset(["not", "isn't", "isn’t", "never", "≠", "!=", "\\ne", "\\neq", "<"])
_FUNCTIONS = re.compile(r"\\?(?:log(?:_\{?\w+\}?)?|ln|lg|sin|cos|tan|sqrt)")
_ALTERNATIVES = frozenset(["or", "oder", "ou", "o", "или", "или,", "或"])


def _doubted(words: list[str], place: int, word: str) -> str:
    """The words that make a number one of two, or deny it; empty for none."""
    near = [w.lower() for w in words[max(0, place - 3) : place]]
    one, two, three = ([""] * 3 + near)[-1:-4:-1]
    has_other = any(map(str.isdigit, two))
    if one in _DENIALS or _FUNCTIONS.fullmatch(one) or _HAN_BEFORE.search(one):
        return f"{one} {word}"
    if has_other and (
        one in _ALTERNATIVES
        or (one == "to" and three != "from")
        or (one == "and" and three == "between")
    ):
        return f"{two} {one} {word}"
    return ""


def _value(match: re.Match[str], sign: str) -> Fraction | None:
    """The value of a number that is read; None where its parts do not fit together."""
    is_rate = (match["unit"] or "").startswith("/")
    if (match["money"] and match["unit"] and not is_rate) or (match["sign"] and match["inner"]):
        return None
    digits = re.sub(r"[,'’_]", "", match["digits"])
    if match["unit"] == "s" and len(digits) > 3:
        return None  # the 1990s
    if match["under"] is not None and (int(match["under"]) == 0 or "." in digits):
        return None
    value = Fraction(digits) / int(match["under"] or 1)
    if match["power"]:
        value *= Fraction(10) ** int(match["power"])
    signs = f"{sign}{match['sign']}{match['inner']}".count("-")
    return None if signs > 1 else -value if signs else value


def _unsure(text: str) -> Numeral:
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return Numeral(text, None, reason=f"the last number, in `{shown}`, is not certain")


def _trimmed(chunk: str, *, right: str = _RIGHT) -> str:
    """A chunk without brackets, quotes, markup and the sentence's signs around it."""
    chunk = chunk.lstrip(_LEFT)
    if chunk.startswith(".."):
        chunk = chunk.lstrip(".")
    return chunk.rstrip(right).lstrip(_LEFT)


def _plain(text: str) -> str:
    """The text with signs, digits, fractions and markup in one spelling."""
    if not text.isascii():
        text = "".join(map(_digit, text.translate(_SIGNS)))
        text = _VULGAR.sub(
            lambda m: f" {unicodedata.normalize('NFKC', m[0]).replace('⁄', '/')}", text
        )
        text = _HAN_BESIDE.sub(" ", text)
    for pattern, spelling, marks in _TIDY:
        if not any(mark in text for mark in marks):
            continue
        if spelling == "_":
            text = pattern.sub(lambda m: m[0].replace(" ", "_"), text)
        else:
            text = pattern.sub(spelling, text)
    return text


def _digit(character: str) -> str:
    """A digit of any script as one of 0 to 9; a raised one is an exponent and stays."""
    if character.isascii() or not character.isdecimal():
        return character
    return str(unicodedata.decimal(character))

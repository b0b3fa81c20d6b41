"""Short answers as tokens, normalised as SQuAD's evaluation does, with its bugs fixed.

SQuAD lowers the case, drops punctuation and the articles `a`, `an`, `the`, and joins white space.
That makes `1.5` and `15`, `-5` and `5`, `C++` and `C`, `Vitamin A` and `vitamin` one. Here a mark
that belongs to a number stays (`1.5`, `2:1`, `2/3`, `-5`), as do the signs of `C++`, `F#` and `A+`,
an `A` that ends an answer, and an article that is all of it. Punctuation beyond ASCII is dropped
like that of ASCII, and composed letters equal decomposed ones. Each Chinese and Japanese character
is a token.
"""

import re
import string
import unicodedata

_ARTICLES = frozenset(("a", "an", "the"))
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_SPELLINGS = _FULL_WIDTH | dict.fromkeys(map(ord, "‐‑‒–−"), "-") | {ord("—"): " ", ord("⁄"): "/"}
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_SIGNS = re.compile(r"[^\w\s]|_")
_IDEOGRAPHS = re.compile(r"([\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff])")


def of(text: str) -> list[str]:
    """The tokens of an answer without articles; none where it holds only punctuation."""
    every = words(text)
    kept = [word for word in every if word not in _ARTICLES]
    if not kept:
        return every
    return [*kept, "a"] if every[-1] == "a" else kept


def words(text: str) -> list[str]:
    """The tokens of an answer, articles included."""
    text = unicodedata.normalize("NFC", text).translate(_SPELLINGS).casefold()
    text = _THOUSANDS.sub(lambda number: number[0].replace(",", ""), text)
    return _IDEOGRAPHS.sub(r" \1 ", _SIGNS.sub(_sign, text)).split()


def _sign(match: re.Match[str]) -> str:
    """What a punctuation mark or a symbol becomes: itself, a space, or nothing."""
    sign, text, at = match[0], match.string, match.start()
    before, after = text[at - 1 : at] if at else "", text[at + 1 : at + 2]
    if before.isdigit() and after.isdigit() and sign in ".:/,-":
        return " " if sign in ",-" else sign
    if sign in ".-" and after.isdigit() and not (before.isalnum() or before == "."):
        return sign
    if sign in "+#" and (before.isalnum() or before in ("+", "#")) and not after.isalnum():
        return sign
    if sign == "-" and before.isalpha() and not after.isalnum() and _is_type(text, at):
        return sign
    is_dropped = sign in string.punctuation or unicodedata.category(sign).startswith("P")
    return "" if is_dropped else sign


def _is_type(text: str, at: int) -> bool:
    """Whether a minus follows a single letter or `ab`, as in the blood type `O-`."""
    word = re.search(r"\w{1,3}$", text[max(0, at - 3) : at])
    return word is not None and (len(word[0]) == 1 or word[0] == "ab")

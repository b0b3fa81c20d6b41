"""Where sentences end; linear in the text's length."""

import re

_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]*_]{0,4}(?=\s|$)|[。！？]+|\n+")
_WORD = re.compile(r"[^\W_]+(?:\.[^\W_]+)*$")
_ITEM = re.compile(r"(?:^|\n)[ \t>]*[0-9]{1,3}$")  # the number of a list's item
_ABBREVIATIONS = re.compile(
    r"mr|mrs|ms|dr|st|jr|sr|prof|rev|gen|col|lt|capt|sgt|gov|sen|rep|hon|inc|ltd|co|corp|bros|vs|no"
    r"|nos|vol|mt|ft|ave|blvd|dept|fig|approx|cf|ca|(?:[a-z]\.)+[a-z]"
)


def split(text: str) -> list[str]:
    """The sentences of a text, each with its sign; what holds no letter and no digit is none.

    A sentence ends at a line's end, and at `.`, `!`, `?` before white space. The full stop of an
    abbreviation or of an initial, as in `St. Louis` or `George W. Bush`, ends none, nor does that
    behind the number of a list's item.
    """
    pieces = []
    start = 0
    for match in _END.finditer(text):
        before = text[max(0, match.start() - 20) : match.start()]
        if match[0] == "." and (_is_abbreviation(before) or _ITEM.search(before)):
            continue
        pieces.append(text[start : match.end()])
        start = match.end()
    pieces.append(text[start:])
    return [piece.strip() for piece in pieces if any(map(str.isalnum, piece))]


def _is_abbreviation(before: str) -> bool:
    word = _WORD.search(before)
    if word is None:
        return False
    text = word[0].lower()
    return (len(text) == 1 and text.isalpha()) or bool(_ABBREVIATIONS.fullmatch(text))

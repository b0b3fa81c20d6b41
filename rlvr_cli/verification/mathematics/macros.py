r"""What changes only the look of an answer: `\nicefrac12`, `\mathrm{\frac12}`, `\text{Area: }5`."""

import re

from rlvr_cli.verification.mathematics import shapes

_FRACTION = re.compile(r"\\(?:nicefrac|sfrac|flatfrac|xfrac)(?![a-zA-Z])")
_SURD = re.compile(r"\\surd(?![a-zA-Z])")
_ACCENT = re.compile(
    r"\\(vec|bar|hat|tilde|mathbf|boldsymbol|bm|overline)\s+([a-zA-Z])(?![a-zA-Z])"
)
_FACTORIAL = re.compile(r"(?<=[0-9])!=")  # f(x)!=0 is an inequation
_AROUND = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mathsf|boldsymbol|bm|mbox|ensuremath)"
    r"\s*(?=\{)"
)
_MATH = re.compile(r"\\(?:[dtc]?frac|sqrt|left|pi|cdot|times|infty)(?![a-zA-Z])")
_DELIMITED = re.compile(r"(?:\$([^$]+)\$|\\\(([^$]+?)\\\))")
_SAID = re.compile(
    r"^\\text\s*\{\s*((?:[A-Za-z][a-z]*\s+){0,5}?[A-Za-z][a-z]*)\s*(?::|\bis\b:?|\bequals\b|=)\s*\}"
    r"\s*(?=[-+0-9\\])",
)
_NO_NAME = re.compile(
    r"\b(?:not|no|never|if|or|and|than|least|most|about|step|case|part|option|choice|except"
    r"|false|wrong|minus|negative)\b",
    re.IGNORECASE,
)
_OUT_OF = re.compile(
    r"^(?:\\text\s*\{\s*)?([0-9]{1,6})\s*\}?\s*(?:\\text\s*\{\s*)?\s*(?:out of|in)\s*\}?\s*"
    r"([0-9]{1,6})\s*\}?$"
)
_NAMED = re.compile(r"^([a-zA-Z])\s*\\text\s*\{\s*(?:is|equals|is equal to)\s*\}\s*(?=[-+0-9\\])")


def plain(text: str) -> str:
    """The text with such macros in their usual spelling, and without those around all of it."""
    text = _SURD.sub(r"\\sqrt", _FRACTION.sub(r"\\frac", text))
    text = _ACCENT.sub(r"\\\1{\2}", _FACTORIAL.sub("! =", text))
    for _ in range(2):
        opening = _AROUND.match(text)
        if opening is None or not shapes.closes_at_end(text[opening.end() :]):
            break
        inside = text[opening.end() + 1 : -1].strip()
        math = _DELIMITED.fullmatch(inside)
        if math is None and not _MATH.search(inside.partition(r"\text")[0]):
            break
        text = (math[1] or math[2]).strip() if math else inside
    text = _OUT_OF.sub(r"\\frac{\1}{\2}", text)
    return _NAMED.sub(r"\1=", without_name(text))


def without_name(text: str) -> str:
    r"""The value of `\text{Area: } 5` and `\text{The area is } 5`; any other text as it is."""
    said = _SAID.match(text)
    return text[said.end() :] if said and not _NO_NAME.search(said[1]) else text

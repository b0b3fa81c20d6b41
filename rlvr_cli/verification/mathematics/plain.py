r"""Answers as plain text: what does not change a value taken off."""

import re
from fractions import Fraction

from rlvr_cli.verification.mathematics import characters, chinese, macros

_TEXT = (
    r"\\(?:text|textbf|textit|textrm|textnormal|textsf|mathrm|mathbf|mathit|mathsf|mbox|bold"
    r"|operatorname\*?)\s*"
)
_WRAPPED = re.compile(_TEXT + r"\{([^{}]*)\}")
_SPACES = re.compile(r"(?<!\\)\\[,;:> ]|~|\\quad|\\qquad|\\enspace|\\thinspace|\s+")
_ORDER = re.compile(r"\\([lg])t(?![a-zA-Z])")
_THIN_COMMA = re.compile(r",\s*\\[!,]\s*")
_FIGURE = re.compile(r"\\(?:triangle|angle|measuredangle)(?![a-zA-Z])\s*(?=[A-Z]{2})")
_PHANTOM = re.compile(r"\\[hv]?phantom\s*(?:\{[^{}]*\}|.)")
_BACK = re.compile(r"(?<!\\)\\!")
_THIN_DIGITS = re.compile(r"(?<=[0-9])\\[!,](?=[0-9]{3}(?![0-9]))")
_CONSTANT = re.compile(r"\\(?:mathrm|text)\s*(?:\{\s*([ei])\s*\}|([ei])(?![a-zA-Z]))")
_SIZES = re.compile(
    r"\\(?:left|right|big|Big|bigg|Bigg|bigl|bigr|Bigl|Bigr|displaystyle|textstyle|limits|middle)"
    r"(?![a-zA-Z])"
)
_DOUBLED = re.compile(
    r"(?<!\\)\\\\(?=(?:[dt]?frac|sqrt|left|right|text|pi|cdot|times|leq?|geq?|in|cup|infty|boxed)\b)"
)
_DELIMITERS = re.compile(r"^(?:\$\$?|\\\(|\\\[)|(?:\$\$?|\\\)|\\\])$")
_EMPHASIS = re.compile(r"^(\*\*|__|`)(.*)\1$", re.DOTALL)
_DEGREES = re.compile(r"\^\s*\{?\s*\\circ\s*\}?|°|\\degree|\\text\{\s*degrees?\s*\}|\s+degrees?\b")
_DEGREE = r"(?:\^\s*\{?\s*\\circ\s*\}?|°)"
_CELSIUS = re.compile(
    rf"{_DEGREE}[\s\\,]*(?:\\(?:text|mathrm)\s*\{{\s*([CF])\s*\}}|([CF])(?![a-zA-Z]))"
)
_PLAIN_DEGREES = re.compile(rf"(?<![0-9.])([0-9]+(?:\.[0-9]+)?)\s*{_DEGREE}")
_PRIME = r"(?:'|\^\s*\{?\s*\\prime\s*\}?)"
_MINUTES = re.compile(
    rf"([0-9]+)\s*{_DEGREE}[\s\\,]*([0-9]{{1,2}})\s*{_PRIME}(?!\s*{_PRIME})"
    rf"(?:[\s\\,]*([0-9]{{1,2}})\s*(?:{_PRIME}{_PRIME}|\"))?"
)
_OHM = re.compile(
    r"(?<=[0-9}])[\s\\,]*(?:\\(?:text|mathrm)\s*\{\s*(?:([kM])\s*\}\s*\\Omega|([kM])\s*\\Omega\s*\})"
    r"|\\(?:Omega|ohm))\s*$"
)
_MICRO = re.compile(
    r"\\mu\s*(\\(?:mathrm|text)\s*\{)\s*|\\mu\s*(?=[a-zA-Z]{1,3}\s*\})|μ(?=[a-zA-Z])"
)
_PERCENT = re.compile(
    r"\\?%|\s*(?:\\text\s*\{)?\s*\b(?:percent(?:age)?|pct)\b\.?(?:\s+points?\b)?\s*\}?"
)
_MONEY = re.compile(
    r"\\?\$|[€£¥₹]|\\text\s*\{\s*Rs\.?\s*\}|\bRs\b\.?(?=\s*[0-9])"
    r"|\\(?:pounds|euro)(?![a-zA-Z])|\\text\{\s*(?:\\?\$|USD|EUR|GBP)\s*\}"
    r"|\b(?:USD|EUR|GBP)\b"
)
_CURRENCIES = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in (
        ("cent", r"¢|\bcents?\b"),
        ("dollar", r"\$|\bdollars?\b|\bUSD\b|\bbucks?\b"),
        ("euro", r"€|\\euro\b|\beuros?\b|\bEUR\b"),
        ("pound", r"£|\\pounds(?![a-zA-Z])|\bGBP\b"),
        ("yen", r"¥|\byen\b"),
        ("rupee", r"₹|\brupees?\b|\bRs\b"),
    )
}
_SIGNED = re.compile(r"^(?:\\text\s*\{\s*)?(?:minus|negative)\s+(?=[0-9\\}])(?:\s*\})?")
_SAID = re.compile(
    r"^(?:final )?answer\s*(?:is\b:?|:)\s*(?=\S)"
    r"|^\\text\s*\{\s*(?:(?:so|thus|therefore|hence),?\s+)?(?:the\s+)?(?:final\s+|correct\s+)?"
    r"(?:answer|result|value|solution)s?\s*(?:is|are|equals|=|:)\s*:?\s*\}\s*(?=\S)",
    re.IGNORECASE,
)
_END = ".,;: \t\n"
_BEFORE = re.compile(
    r"^(?:\\text\s*\{)?\s*(?:approximately|approx\.?|about|roughly|exactly)\s*\}?\s+|^\\(?:approx|sim)(?![a-zA-Z])\s*"
)
# Of a number with several digits, of which LaTeX's \sqrt takes only the first.
_ROOT = re.compile(
    r"(?:√|(?<![a-zA-Z\\])sqrt(?![a-zA-Z]))\s*(?:([0-9]+(?:\.[0-9]+)?)|\(([^()]*)\))"
)
_SAME = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\(?:varnothing|O)(?![a-zA-Z])", r"\\emptyset "),
        (r"^\\\{\s*\\\}$|^\{\s*\}$", r"\\emptyset "),
        (r"\\(?:leqslant|leq|leqq)(?![a-zA-Z])|<=|=<", r"\\le "),
        (r"\\(?:geqslant|geq|geqq)(?![a-zA-Z])|>=", r"\\ge "),
        (r"\\ne(?![a-zA-Z])|!=|\\not\s*=|/=", r"\\neq "),
        (r"\\math(?:bb|bf)\s*\{?\s*([RZNQC])(?![a-zA-Z])\s*\}?", r"\\mathbb{\1}"),
        (r"\\(?:Re|reals|R)(?![a-zA-Z])", r"\\mathbb{R}"),
        (r"\\lbrace(?![a-zA-Z])", r"\\{"),
        (r"\\rbrace(?![a-zA-Z])", r"\\}"),
        (r"\\lbrack(?![a-zA-Z])", "["),
        (r"\\rbrack(?![a-zA-Z])", "]"),
        (r"\\(?:dots|cdots|dotsc)(?![a-zA-Z])", r"\\ldots "),
        (r"\\(?:overline|bar|overrightarrow|vec|widehat|widetilde|overleftrightarrow)\s*"
         r"\{\s*([A-Z]{2,})\s*\}", r"\1"),
        (r"\\(?:vec|mathbf|boldsymbol|bm|hat)\s*\{\s*([a-zA-Z])\s*\}", r"\1"),
        (r"(?<=[)\]])\s*U\s*(?=[(\[])", r"\\cup "),
        (r"\\hat\s*\{\s*\\([ij])math\s*\}", r"\1"),
        (r"\*\*", "^"),
        (r"\\var(phi|epsilon|theta)(?![a-zA-Z])", r"\\\1"),
        (r"\\color\s*\{\w+\}|\\textcolor\s*\{\w+\}", ""),
        (r"\\(?:bf|rm|it|bfseries|tiny|small|normalsize|[lL]arge|LARGE|[hH]uge)(?![a-zA-Z])\s*",
         ""),
        (r"\\(?:underline|boldsymbol|bm|emph)\s*\{((?:[^{}]|\{[^{}]*\})*)\}", r"\1"),
        (r"\\[hv]space\*?\s*\{[^{}]*\}", " "),
        (r"\s*(?:\\(?:checkmark|blacksquare|qed)(?![a-zA-Z])|[✓✔✅∎■])\s*$", ""),
        (r"(?<=[0-9])\s*\^\s*(?:\{\s*(?:\\text\s*\{\s*o\s*\}|o)\s*\}|o(?![a-zA-Z]))", r"^\\circ "),
        (r"\\text\s*\{\s*([,:])\s*\}", r"\1"),
        (r"\{([^{}]+?)\s*\\choose\s*([^{}]+?)\}", r"\\binom{\1}{\2}"),
        (r"(?:\{\s*)?([a-zA-Z0-9]+)\s*\\choose\s*([a-zA-Z0-9]+)(?:\s*\})?", r"\\binom{\1}{\2}"),
        (r"\\(max|min|gcd|lcm)\s*\\\{([^{}]*)\\\}", r"\\\1(\2)"),
        (r"\\unit\s*\{", r"\\text{"),
        (r"(?<![a-zA-Z\\])infinity(?![a-zA-Z])|(?<![a-zA-Z\\])inf(?![a-zA-Z])", r"\\infty "),
        (r"\\(?:text|mathrm)\s*\{\s*\\infty\s*\}", r"\\infty "),
    )
]  # fmt: skip
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_NO_NAME = re.compile(r",|^\s*[-+]?\\?\$?[0-9.]")  # a list, or a number with its unit
_TRANSPOSED = re.compile(
    r"^[(\[]([^()\[\]]*,[^()\[\]]*)[)\]]\s*\^\s*\{?\s*(?:T|\\top|\\intercal"
    r"|\\(?:mathsf|mathrm|text)\s*\{\s*T\s*\})\s*\}?$"
)
_POSITIVE = re.compile(
    r"^(?:[a-z]\s*\\in\s*)?\\mathbb\{R\}\s*(?:\^\s*\{?\s*\+\s*\}?|_\s*\{?\s*>\s*0\s*\}?)$"
)
_CALL = re.compile(r"(?<![a-zA-Z])(?:sin|cos|tan|cot|sec|csc|ln|log|exp|sqrt|sinh|cosh|tanh)\s?\(")
_NUMBERED = re.compile(
    r"(?!(?:sin|cos|tan|log|sqrt|exp|mod)\b)[a-zA-Z]{3,}(?:[ ,.'-]+[a-zA-Z0-9']+)+"
)
_SPACE = re.compile(
    r"(?<![0-9a-zA-Z]) | (?![0-9a-zA-Z.])| (?=[a-zA-Z])(?<=[0-9] )| (?=[0-9])(?<=[a-zA-Z] )"
)
_MEANINGS = {
    "no solution": r"\emptyset", "no solutions": r"\emptyset", "none": r"\emptyset",
    "no real solution": r"\emptyset", "no real solutions": r"\emptyset",
    "empty set": r"\emptyset", "the empty set": r"\emptyset", "null set": r"\emptyset",
    "there is no solution": r"\emptyset", "there are no solutions": r"\emptyset",
    "no solution exists": r"\emptyset", "no solutions exist": r"\emptyset",
    "there is no real solution": r"\emptyset", "there are no real solutions": r"\emptyset",
    "no real solution exists": r"\emptyset", "no real solutions exist": r"\emptyset",
    "no root": r"\emptyset", "no roots": r"\emptyset", "no real root": r"\emptyset",
    "no real roots": r"\emptyset", "there are no real roots": r"\emptyset",
    "infinite": r"\infty", "infinitely many": r"\infty", "infinite solutions": r"\infty",
    "infinitely many solutions": r"\infty", "an infinite number": r"\infty",
    "an infinite number of solutions": r"\infty",
    "no such number": r"\emptyset", "no such numbers": r"\emptyset",
    "all real numbers": r"\mathbb{R}", "all reals": r"\mathbb{R}", "all real": r"\mathbb{R}",
    "any real number": r"\mathbb{R}", "every real number": r"\mathbb{R}",
    "the real numbers": r"\mathbb{R}", "real numbers": r"\mathbb{R}", "the reals": r"\mathbb{R}",
    "the set of all real numbers": r"\mathbb{R}", "the set of real numbers": r"\mathbb{R}",
    "all positive real numbers": r"(0,\infty)", "positive real numbers": r"(0,\infty)",
    "all positive reals": r"(0,\infty)", "the positive real numbers": r"(0,\infty)",
    "all integers": r"\mathbb{Z}", "the integers": r"\mathbb{Z}", "integers": r"\mathbb{Z}",
}  # fmt: skip
_NO_SUCH = re.compile(
    r"(?:there (?:is|are) )?no such [a-z]+(?: exists?)?|(?:there are|there is)? ?none(?: exists?)?"
)
_ALL_BUT = re.compile(
    r"(?:all|any|every) real(?: numbers?|s)?,? (?:except|but"
    r"|other than)(?: for)? (?:x ?= ?)?(.{1,40})"
)


def clean(text: str) -> str:
    """The answer without delimiters, sizes, spaces of LaTeX, and the final punctuation.

    Commands whose backslash was doubled on the way have one again, and each of the signs that
    mean the same has one spelling.
    """
    text = text.strip()
    if _NUMBER.fullmatch(text):  # most answers
        return text
    text = _ROOT.sub(lambda root: rf"\sqrt{{{root[1] or root[2]}}}", text)
    if not text.isascii():
        text = chinese.in_latex(text)
    text = characters.in_latex(text).replace("...", r"\ldots ")
    if "\\begin" not in text:
        text = _DOUBLED.sub(r"\\", text).replace("\\\n", " ")
    for _ in range(2):
        text = _DELIMITERS.sub("", text.strip().rstrip(_END).strip())
        text = _EMPHASIS.sub(r"\2", text)
    text = macros.plain(text) if "\\" in text or "!" in text else text
    text = _MINUTES.sub(_in_degrees, _CELSIUS.sub(r"^\\circ\\text{\1\2}", text))
    text = _OHM.sub(
        lambda m: rf"\text{{ {m[1] or m[2] or ''}ohm}}",
        _MICRO.sub(lambda m: f"{m[1] or ''}µ", text),
    )
    text = _CONSTANT.sub(lambda match: f" {match[1] or match[2]}", text)
    text = _THIN_COMMA.sub(",", _THIN_DIGITS.sub("", _PHANTOM.sub("", text)))
    text = _SIZES.sub("", _BACK.sub("", text))
    for pattern, replacement in _SAME:
        text = pattern.sub(replacement, text)
    text = _ORDER.sub(lambda sign: {"l": "<", "g": ">"}[sign[1]], text)
    text = " ".join(_SPACES.sub(" ", text).split()).rstrip("\\").rstrip(_END).removeprefix("+")
    text = _TRANSPOSED.sub(r"\\langle \1 \\rangle", _POSITIVE.sub(r"(0,\\infty)", text))
    text = _BEFORE.sub("", _SIGNED.sub("-", _SAID.sub("", text)))
    bare = unwrapped(text).casefold().strip("$ ")
    if match := _ALL_BUT.fullmatch(bare):
        return rf"\mathbb{{R}}\setminus\{{{match[1]}\}}"
    if (alone := _WRAPPED.fullmatch(text)) and _NO_NAME.search(alone[1]):
        text = alone[1].strip()
    return r"\emptyset" if _NO_SUCH.fullmatch(bare) else _MEANINGS.get(bare, text)


def _in_degrees(match: re.Match[str]) -> str:
    value = Fraction(match[1]) + Fraction(int(match[2]), 60) + Fraction(int(match[3] or 0), 3600)
    return rf"\frac{{{value.numerator}}}{{{value.denominator}}}^\circ"


def squeezed(text: str) -> str:
    """The text without the spaces that mean nothing: between digits or letters they do."""
    return _SPACE.sub("", text)


def unwrapped(text: str) -> str:
    r"""The text with `\text{...}` and its kin replaced by what they hold."""
    for _ in range(3):
        if "{" not in text:
            break
        text = _WRAPPED.sub(r" \1 ", text)
    return _SPACES.sub(" ", _FIGURE.sub("", text)).strip()


def without_degrees(text: str) -> str:
    return _DEGREES.sub("", text).strip()


def in_radians(text: str) -> str:
    """The text with its degrees as the number that they are."""
    text = _PLAIN_DEGREES.sub(r"(\1\\cdot \\frac{\\pi}{180})", text)
    return _DEGREES.sub(r"\\cdot \\frac{\\pi}{180} ", text).strip()


def without_percent(text: str) -> tuple[str, bool]:
    """The text without a percent sign, and whether it had one."""
    bare = _PERCENT.sub("", text).strip()
    return bare, bare != text


def without_money(text: str) -> str:
    return _MONEY.sub("", text).strip()


def currency(text: str) -> str:
    """The currency in which a text states an amount; empty for none."""
    return next((name for name, sign in _CURRENCIES.items() if sign.search(text)), "")


def is_words(text: str) -> bool:
    """Whether the text is only words, as `June 20` is, with no sign of mathematics."""
    bare = unwrapped(text)
    if _CALL.search(bare):
        return False
    if _NUMBERED.fullmatch(bare):
        return True
    return any(map(str.isalpha, bare)) and all(c.isalpha() or c in " ,.'-()?!:\"" for c in bare)

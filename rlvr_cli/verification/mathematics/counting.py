r"""Numbers of choices in the notations that are no LaTeX macro: `C(7,3)`, `{}^7C_3`, `C_7^3`."""

import re

_N = r"\{?\s*([0-9]{1,4}|[a-z])\s*\}?"
_LETTER = r"(?:\\(?:mathrm|text)\s*\{\s*([CPA])\s*\}|([CPA]))"
_BEHIND = re.compile(
    rf"(?:\{{\s*\}}\s*|(?<![a-zA-Z0-9)\]}}]))[_^]\s*{_N}\s*{_LETTER}\s*_\s*{_N}(?![a-zA-Z0-9])"
)
_BESIDE = re.compile(
    rf"(?<![a-zA-Z0-9_^}}]){_LETTER}\s*(?:_\s*{_N}\s*\^\s*{_N}|\^\s*{_N}\s*_\s*{_N})(?![a-zA-Z0-9])"
)
_BETWEEN = re.compile(r"(?<![a-zA-Z0-9_^.])([0-9]{1,3})\s?([CP])\s?([0-9]{1,3})(?![a-zA-Z0-9_^.])")
_CALL = re.compile(
    rf"(?<![a-zA-Z0-9_^}}\\]){_LETTER}\s*\(\s*([0-9]{{1,4}}|[a-z])\s*,\s*([0-9]{{1,4}}|[a-z])\s*\)"
)


def in_latex(text: str, other: str) -> str:
    r"""The text with such notations as `\binom`, where the other side is no point or vector."""
    if "=" in text or not any(letter in text for letter in "CPA"):
        return text
    text = _BEHIND.sub(lambda m: _counted(m[2] or m[3], m[1], m[4]), text)
    text = _BETWEEN.sub(lambda m: _counted(m[2], m[1], m[3]), text)
    text = _BESIDE.sub(_beside, text)
    return text if "," in other.replace("{,}", "") else _CALL.sub(_call, text)


def _beside(match: re.Match[str]) -> str:
    """`C_7^3` as in China and France, or `C^7_3`: of two numbers the larger is all there are."""
    one, two = [group for group in match.groups()[2:] if group]
    if not (one.isdigit() and two.isdigit()):
        return match[0]
    return _counted(match[1] or match[2], *sorted((one, two), key=int, reverse=True))


def _call(match: re.Match[str]) -> str:
    is_choice = match[3].isdigit() and match[4].isdigit() and int(match[3]) < int(match[4])
    return match[0] if is_choice else _counted(match[1] or match[2], match[3], match[4])


def _counted(letter: str, every: str, chosen: str) -> str:
    if letter == "C":
        return rf"\binom{{{every}}}{{{chosen}}}"
    return rf"\binom{{{every}}}{{{chosen}}}\cdot {chosen}!"

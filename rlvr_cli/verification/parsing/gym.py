"""The answers that reasoning-gym's scorers get, and those that they must not evaluate.

In version 0.1.25, five scorers pass the answer to sympy's `parse_expr`, which executes Python, one
accepts every text as true, and seven others give full reward to wrong answers (`mended`).
"""

import math
import re
from collections import Counter
from fractions import Fraction
from typing import Any

from rlvr_cli.verification.parsing import boxed

_TAGS = re.compile(r"<answer>\s?(.*?)\s?</answer>", re.DOTALL)  # as in reasoning_gym.utils
_NAMES = {
    *("sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "acot", "asec", "acsc"),
    *("sinh", "cosh", "tanh", "coth", "sech", "csch", "asinh", "acosh", "atanh"),
    *("exp", "log", "ln", "sqrt", "cbrt", "Abs", "abs", "pi"),
}
_ALGEBRA = {"intermediate_integration", "polynomial_multiplication", "simple_integration"}
_ARITHMETIC = {"countdown", "puzzle24"}
_TOKEN = re.compile(
    r"(?P<number>\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+)|(?P<name>[^\W\d_][^\W_]*)|[-+*/^(),\s]"
)


def answer_of(completion: str, finished: bool) -> str | None:
    r"""The content of the last `<answer>` tags, else of the last `\\boxed{}`, else the full text.

    None where a tag is not closed or the text was cut, or the content is empty.
    """
    tagged = _TAGS.findall(completion)
    if tagged:
        answer = tagged[-1]
    elif (box := boxed.last_box(completion)) is not None:
        answer = box
    else:
        answer = completion if finished and "<answer>" not in completion else ""
    return answer.strip() or None


def unreadable(name: str, answer: str) -> str | None:
    """Why an answer is none for a generator, before its scorer sees it; None if it may."""
    if name in _ARITHMETIC:
        if not re.fullmatch(r"[\d\s+\-*/()]+", answer) or "**" in answer or "//" in answer:
            return "it is no expression of whole numbers, + - * / and parentheses"
    elif name in _ALGEBRA:
        return _no_expression(answer)
    elif name == "game_of_life_halting" and answer.lower() not in ("true", "false"):
        return "it is neither True nor False"
    return None


def _no_expression(answer: str) -> str | None:
    """Why a text is no expression of numbers, single letters and functions of mathematics."""
    at = 0
    while at < len(answer):
        token = _TOKEN.match(answer, at)
        if token is None:
            return f"`{answer[at]}` is no part of an expression"
        name = token["name"]
        if name and len(name) > 1 and name not in _NAMES and not name[1:].isdecimal():
            return f"`{name[:40]}` is no part of an expression"
        at = token.end()
    return None


def mended(name: str, answer: str, entry: dict[str, Any]) -> float:
    """The reward of an answer that its scorer accepts in full: 1 if it has the requested form."""
    gold = str(entry["answer"])
    if name == "game_of_life_halting":  # every text is true
        return float(answer.lower() == gold.lower())
    if name == "puzzle24":  # any four numbers that make 24.9 will do
        from sympy import parse_expr

        used = Counter(map(int, re.findall(r"\d+", answer)))
        given = Counter(map(int, entry["metadata"]["numbers"]))
        return float(used == given and bool(parse_expr(answer) == 24))
    if name == "coin_flip":  # `0` begins like 0.17
        return float(math.isclose(Fraction(answer), Fraction(gold), rel_tol=1e-3))
    if name == "complex_arithmetic":  # min(1, nan) is 1
        return float("nan" not in answer.lower())
    if name == "spell_backward" and answer.lower() != gold.lower():
        return 0.8  # what is meant where more follows, but for the rounding of a sum
    if name == "gsm_symbolic":  # its pattern leaves out the sign of -405
        return float(answer.lstrip("$ ").startswith("-") == gold.startswith("-"))
    if name == "word_sorting":  # what follows the right list is not looked at
        return float(answer.count(",") < len(entry["metadata"]["sorted_words"]))
    if name == "number_sorting":  # each number may be off by 1
        pairs = zip(_numbers(answer), _numbers(gold), strict=True)
        return float(all(math.isclose(a, b, abs_tol=0.005) for a, b in pairs))
    return 1.0


def _numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", text)]

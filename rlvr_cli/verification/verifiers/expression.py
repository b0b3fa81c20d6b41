"""Whether an arithmetic expression equals a number, in exact rational arithmetic."""

import re
from collections.abc import Callable
from fractions import Fraction
from operator import add, mul, sub, truediv
from typing import Any

from rlvr_cli.protocols import Equality, Verdict, Verifier

MAX_LENGTH = 200
EQUALITY: Equality = "text"  # its golds are numbers, its answers are not

_ALPHABET = re.compile(r"[-+*/() 0-9]*")
_TOKEN = re.compile(r"[1-9][0-9]*|[-+*/()0]")
_GOLD = re.compile(r"-?[0-9]{1,100}([./][0-9]{1,100})?")
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}
_APPLY: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": add,
    "-": sub,
    "*": mul,
    "/": truediv,
}


def build() -> Verifier:
    """The verifier of the expression task.

    Operands are integers from 1 to 9 and at least one operator joins them, unless `extra` has
    `digits`: then the operands are exactly those numbers, each used once. Only what can be read
    as an expression is an answer: no unary sign, no leading zero, no `=`, 200 characters at most.
    A broken rule or a division by zero is a wrong answer.
    """
    return _verify


def _verify(completion: str, *, answer: str, extra: dict[str, Any]) -> Verdict:
    gold, digits = _gold(answer), (extra or {}).get("digits")
    if gold is None:
        return Verdict("bad_gold", reason="it is neither a whole number nor a fraction")
    if not _are_digits(digits):
        return Verdict("bad_gold", reason="its `digits` are no whole numbers")
    expression = completion.strip()
    postfix = postfix_of(expression)
    if postfix is None:
        limit = f"in at most {MAX_LENGTH} characters"
        reason = f"it is not one expression of + - * / ( ) and digits {limit}"
        return Verdict(status="no_answer", reward=0.0, correct=False, reason=reason)
    operands = [int(token) for token in postfix if token not in _APPLY]
    correct = _allowed(operands, digits) and value_of(postfix) == gold
    return Verdict(status="ok", reward=float(correct), correct=correct, extracted=expression)


def _gold(answer: str) -> Fraction | None:
    if not _GOLD.fullmatch(answer):
        return None
    try:
        return Fraction(answer)
    except ZeroDivisionError:
        return None


def _are_digits(digits: object) -> bool:
    if digits is None:
        return True
    return isinstance(digits, list) and all(type(digit) is int for digit in digits)


def _allowed(operands: list[int], digits: list[int] | None) -> bool:
    if digits is not None:
        return sorted(operands) == sorted(digits)
    return len(operands) > 1 and all(1 <= operand <= 9 for operand in operands)


def postfix_of(expression: str) -> list[str] | None:
    """The tokens in postfix order, None if malformed; shunting-yard, so depth costs no stack."""
    if len(expression) > MAX_LENGTH or not _ALPHABET.fullmatch(expression):
        return None
    output: list[str] = []
    stack: list[str] = []
    operand_next = True
    for token in _TOKEN.findall(expression):
        opens = token == "(" or token.isdigit()
        if opens != operand_next:
            return None
        if token.isdigit():
            output.append(token)
        elif token == "(":
            stack.append(token)
        elif not _unwind(stack, output, token):
            return None
        operand_next = token == "(" or token in _APPLY
    if operand_next or "(" in stack:
        return None
    return output + stack[::-1]


def _unwind(stack: list[str], output: list[str], token: str) -> bool:
    """Move what binds at least as tightly as `token` to the output; False if `)` closes nothing."""
    floor = _PRECEDENCE.get(token, 0)
    while stack and stack[-1] != "(" and _PRECEDENCE[stack[-1]] >= floor:
        output.append(stack.pop())
    if token in _APPLY:
        stack.append(token)
        return True
    return bool(stack) and stack.pop() == "("


def value_of(postfix: list[str]) -> Fraction | None:
    """The expression's value; None when it divides by zero."""
    stack: list[Fraction] = []
    for token in postfix:
        if token not in _APPLY:
            stack.append(Fraction(int(token)))
            continue
        right, left = stack.pop(), stack.pop()
        if token == "/" and right == 0:
            return None
        stack.append(_APPLY[token](left, right))
    return stack[0]

"""Whether equations are equal, or the values that they give to a name."""

import re

from rlvr_cli.verification.mathematics import equations, expressions, regions, shapes, symbolic
from rlvr_cli.verification.mathematics.matching import Again
from rlvr_cli.verification.mathematics.options import Options


def equal(gold: str, answer: str, options: Options, again: Again) -> bool | None:
    """Whether an equation is the other, or the value that it gives; None if none has a sign."""
    left, right = shapes.sides(gold), shapes.sides(answer)
    if len(left) < 2 and len(right) < 2:
        return None
    if options.equations == "strict" and len(left) != len(right):
        return False
    if regions.is_relation(gold) or regions.is_relation(answer):
        return None
    (label, value), (name, other) = shapes.labelled(gold), shapes.labelled(answer)
    if len(left) > 1 and len(right) > 1:
        is_one, other = _named_alike(label, name, other)
        if is_one is False and label and name and again(value, other):
            return False
        if label and name and is_one:
            if again(value, other):
                return True
            if label == name:
                return _same_equation(gold, answer, options) if value and "=" in value else False
        return _same_equation(gold, answer, options)
    if len(left) > 1:
        return again(value, answer) if label else False
    if not name:
        other = right[-1]
        if right[0].startswith("-") and shapes.is_label(right[0][1:]):
            return again(gold, f"-({other})")
        numbers = [expressions.rational(side) for side in (right[0], other)]
        if None not in numbers and numbers[0] != numbers[1]:
            return False
    return again(gold, other)


_INDEX = re.compile(r"[_(\[^]")
_OF = re.compile(r"(.*[(_])([a-z])\)?")
_POWER = re.compile(r"\^-?[0-9]+")
_FIGURES = re.compile(r"^m?(?:angle|triangle|measuredangle)")


def _named_alike(label: str, name: str, value: str) -> tuple[bool, str]:
    """Whether two labels may be those of one thing, and the value of `f(t)` as that of `f(x)`."""
    if label == name:
        return True, value
    if label.startswith("frac") and name.startswith("frac"):
        return label[-1] == name[-1], value  # derivatives by one variable
    if len(label) <= 1 and len(name) <= 1:
        return False, value
    ends = [match.start() if (match := _INDEX.search(n)) else len(n) for n in (label, name)]
    (head, tail), (head2, tail2) = (
        (n[:end], n[end:]) for n, end in zip((label, name), ends, strict=True)
    )
    if any(re.fullmatch("[a-z]{2,3}", n) and n not in ("max", "min", "lim") for n in (label, name)):
        return False, value  # products
    if tail[:1] == tail2[:1] == "^" and head != head2:
        return False, value
    if head == head2 and any(map(_POWER.fullmatch, (tail, tail2))):
        return False, value
    if head != head2 and head.strip("'") == head2.strip("'"):
        return False, value  # a derivative
    if head == head2 and tail and tail2:
        one, other = _OF.fullmatch(tail), _OF.fullmatch(tail2)
        if not one or not other or one[1] != other[1]:
            return False, value
        renamed = re.sub(rf"(?<![a-zA-Z\\]){other[2]}(?![a-zA-Z])", one[2], value)
        return "(" in tail or renamed != value, renamed
    points = [_FIGURES.sub("", n) for n in (label, name)]
    if all(p.isalpha() and p.isupper() for p in points) and len(points[0]) == len(points[1]):
        return points[0] in (points[1], points[1][::-1]), value
    return True, value


def _same_equation(gold: str, answer: str, options: Options) -> bool:
    decided = equations.equal(gold, answer)
    return bool(symbolic.equal(gold, answer, options)) if decided is None else decided

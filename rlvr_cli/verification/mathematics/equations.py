"""Whether two equations are the same: by what they leave at points where they do not hold."""

import random
import re
from typing import Any

from rlvr_cli.verification.mathematics import expressions, plain, shapes
from rlvr_cli.verification.mathematics.formula import Tree, parsed, variables

_POINTS = 4
_STEPS = 60


def equal(gold: str, answer: str) -> bool | None:
    """Whether two equations have the same solutions; None if that is not decided here.

    They have if the difference of one's sides is a constant times the other's. They have not if a
    point that solves one does not solve the other.
    """
    left, right = _residual(gold), _residual(answer)
    if left is None or right is None:
        return None
    names = sorted(variables(left) | variables(right))
    if not variables(left) or not variables(right):
        return None if variables(left) == variables(right) else False
    draw = random.Random(str(names))
    ratios = []
    for _ in range(_POINTS):
        at = {name: complex(draw.uniform(0.3, 3.0)) for name in names}
        a, b = expressions.at(left, at), expressions.at(right, at)
        if not a or not b:
            return None
        ratios.append(a / b)
    has_sizes = _has_sizes(left) or _has_sizes(right)
    if has_sizes:
        ratios += _ratios_beside(left, right, names, draw)
    if all(abs(ratio - ratios[0]) <= 1e-9 * abs(ratios[0]) for ratio in ratios):
        return True
    if _same_where_solved(gold, answer, names, draw):
        return True
    solved = [
        _solves_one_alone(one, other, names, draw, sign=sign)
        for one, other in ((left, right), (right, left))
        for sign in ((1, -1) if has_sizes else (1,))
    ]
    if True in solved:
        return False
    if {*solved} == {None}:  # no real number solves either
        again = _solves_one_alone(left, right, names, draw, is_real=False)
        return False if again else None
    return None


def _has_sizes(tree: Tree) -> bool:
    """Whether a tree has absolute values, so that positive points do not show all of it."""
    return isinstance(tree, tuple) and (tree[0] == "abs" or any(map(_has_sizes, tree[1:])))


def _ratios_beside(left: Tree, right: Tree, names: list[str], draw: random.Random) -> list[complex]:
    """The ratios of two trees at points of any signs and sizes, where both have one."""
    ratios = []
    for _ in range(4 * _POINTS):
        size = draw.choice((1, 10, 100))
        at = {name: complex(draw.choice((size, -size)) * draw.uniform(0.3, 3.0)) for name in names}
        a, b = expressions.at(left, at), expressions.at(right, at)
        if a is not None and b:
            ratios.append(a / b)
    return ratios


_ORDER = re.compile(r"\s*(\\(?:le|ge)(?![a-zA-Z])|[<>])\s*")


def same_order(gold: str, answer: str) -> bool | None:
    """Whether two inequalities of several variables are one times a positive number.

    None if they are not, or are none of two sides each.
    """
    if (chain := _ascending(gold)) and chain == _ascending(answer):
        return True
    one, other = _ordered(gold), _ordered(answer)
    if one is None or other is None or one[1] != other[1]:
        return None
    left, right = one[0], other[0]
    names = sorted(variables(left) | variables(right))
    if len(names) < 2:
        return None
    ratios = _ratios_beside(left, right, names, random.Random(str(names)))
    first = ratios[0] if len(ratios) >= _POINTS else 0j
    is_one = all(abs(ratio - first) <= 1e-9 * abs(first) for ratio in ratios)
    return True if is_one and first.real > 0 and abs(first.imag) <= 1e-9 * abs(first) else None


def _ascending(text: str) -> list[str]:
    """A chain of inequalities from its least side: `a<b<c` of `c>b>a`; empty for none."""
    parts = [plain.squeezed(part).strip() for part in _ORDER.split(text)]
    signs = {*parts[1::2]}
    if len(parts) < 5 or not (signs <= {"<", r"\le"} or signs <= {">", r"\ge"}):
        return []
    turned = {">": "<", r"\ge": r"\le"}
    return [turned.get(part, part) for part in reversed(parts)] if signs & turned.keys() else parts


def _ordered(text: str) -> tuple[Tree, bool] | None:
    """What an inequality says is positive, and whether it may also be 0; None of other texts."""
    parts = _ORDER.split(text)
    if len(parts) != 3:
        return None
    trees = [parsed(parts[0]), parsed(parts[2])]
    if None in trees:
        return None
    greater = parts[1] in (">", r"\ge")
    first, second = trees if greater else trees[::-1]
    return ("-", first, second), parts[1] in (r"\le", r"\ge")


def _residual(text: str) -> Tree:
    """The difference of an equation's sides, without the name of a function that it defines."""
    sides = shapes.sides(text)
    if len(sides) != 2:
        return None
    trees = [parsed(re.sub(r"^\s*([fghFGP])\s*\(\s*[a-z]\s*\)\s*$", "y", side)) for side in sides]
    return None if None in trees else ("-", trees[0], trees[1])


def _same_where_solved(gold: str, answer: str, names: list[str], draw: random.Random) -> bool:
    """Whether two equations, each solved for another variable, hold at the same points.

    As y = 2^x and x = log_2 y do; of y = sqrt(x) and x = y^2 the second has others too.
    """
    sides = [[parsed(side) for side in shapes.sides(text)] for text in (gold, answer)]
    if not all(isinstance(s[0], str) and s[0] not in variables(s[1]) for s in sides):
        return False
    checked = 0
    for (name, tree), (other, solved) in (sides, sides[::-1]):
        for sign in (1, -1, 1, -1):
            at: dict[str, Any] = {n: complex(sign * draw.uniform(0.3, 3.0)) for n in names}
            at[name] = expressions.at(tree, at)
            if at[name] is None or abs(at[name].imag) > 1e-9:
                continue
            value = expressions.at(solved, at)
            if value is None or abs(value - at[other]) > 1e-9 * max(1.0, abs(value)):
                return False
            checked += 1
    return checked >= 4


def _solves_one_alone(
    one: Tree,
    other: Tree,
    names: list[str],
    draw: random.Random,
    *,
    is_real: bool = True,
    sign: int = 1,
) -> bool | None:
    """Whether a solution of the first does not solve the second; None if none is found."""
    solves = None
    for name in names:
        at: dict[str, Any] = {n: complex(sign * draw.uniform(0.3, 3.0)) for n in names}
        start = complex(draw.uniform(0.3, 3.0), 0.0 if is_real else 0.7)
        root = _root(one, at, name, start)
        if root is None or (is_real and abs(root.imag) >= 1e-9):
            continue
        solves = False
        value = expressions.at(other, {**at, name: root})
        near = expressions.at(other, {**at, name: root + 0.01})
        if value is not None and near is not None and abs(value) > 1e-6 * max(1.0, abs(near)):
            return True
    return solves


def _root(tree: Tree, at: dict[str, Any], name: str, start: complex) -> complex | None:
    """Where the tree is 0 along one variable, by the secant method; None if it is not found."""
    a, b = start, start + 0.1
    fa, fb = (expressions.at(tree, {**at, name: x}) for x in (a, b))
    for _ in range(_STEPS):
        if fa is None or fb is None or fa == fb:
            return None
        a, fa, b = b, fb, b - fb * (b - a) / (fb - fa)
        fb = expressions.at(tree, {**at, name: b})
        if fb is not None and abs(b - a) < 1e-12 * max(1.0, abs(b)) and abs(fb) < 1e-9:
            return b
    return None

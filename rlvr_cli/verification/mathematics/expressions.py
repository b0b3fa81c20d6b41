"""Whether two expressions are equal, by their values: exactly, or at points where both have one.

Two that differ at a point are not equal. Two that agree to 45 digits at several points, of either
sign, are; anything between the two is left open.
"""

import cmath
import functools
import itertools
import random
from fractions import Fraction
from typing import Any

from rlvr_cli.verification.mathematics import numerals, values
from rlvr_cli.verification.mathematics.formula import Tree, parsed, variables

_EXACT, _FLOATS = values.Exact(), values.Floats()
_POINTS = 3
_CLOSE = 1e-9  # what floats may differ by, relative, and still be one value
_SAME = 1e-40  # the same of numbers of 50 digits
_FAULTS = (ArithmeticError, ValueError, TypeError, KeyError, MemoryError)


@functools.cache
def _digits() -> values.Digits:
    return values.Digits()


@functools.lru_cache(maxsize=4096)
def rational(text: str) -> Fraction | None:
    """The rational number that an expression is; None if it is none, or it is not known."""
    tree = parsed(text)
    return None if tree is None else _rational(tree)


def _rational(tree: Tree) -> Fraction | None:
    if variables(tree):
        return None
    try:
        result = values.value(tree, {}, _EXACT)
    except _FAULTS:
        return None
    return result if isinstance(result, Fraction) else None


@functools.lru_cache(maxsize=4096)
def real(text: str) -> float | None:
    """The real number that an expression is, as a float; None if it is none."""
    number = numerals.number(text)
    if number is not None:
        return float(number.value)
    tree = parsed(text)
    if tree is None or variables(tree):
        return None
    try:
        result = values.value(tree, {}, _FLOATS)
    except _FAULTS:
        return None
    return result.real if abs(result.imag) <= _CLOSE * abs(result.real) else None


def is_read(text: str) -> bool:
    """Whether a text is arithmetic."""
    return parsed(text) is not None


def at(tree: Tree, point: dict[str, Any]) -> complex | None:
    """A tree's value in floats at a point; None if it has none."""
    try:
        result = complex(values.value(tree, point, _FLOATS))
    except _FAULTS:
        return None
    return result if cmath.isfinite(result) else None


def equal(gold: str, answer: str, tolerance: float, *, exact_integers: bool) -> bool | None:
    """Whether two expressions are equal, with the relative tolerance where one has a decimal.

    None if one of the two is not read, or their values do not decide it.
    """
    left, right = parsed(gold), parsed(answer)
    if left is None or right is None:
        return None
    room = tolerance if "." in gold + answer else 0.0
    exact = _rational(left), _rational(right)
    if exact[0] is not None and exact_integers and exact[0].denominator == 1 and "." not in gold:
        room = 0.0
    if exact[0] is not None and exact[1] is not None:
        return abs(exact[0] - exact[1]) <= Fraction(room) * max(map(abs, exact))  # type: ignore
    return _equal_at_points(left, right, room)


def _equal_at_points(left: Tree, right: Tree, room: float) -> bool | None:
    names = sorted(variables(left) | variables(right))
    is_same = [_same_at(left, right, at, room) for at in _points(names, positive=True)]
    if False in is_same:
        return False
    if names and (_has_bends(left) or _has_bends(right)):
        far = _far_points(names)
        apart = [at for at in far if _same_at(left, right, at, room) is False]
        apart = [at for at in apart if not (_leaves_reals(left, at) or _leaves_reals(right, at))]
        if any(min(at.values()) > 0 for at in apart):
            return False
        if apart or True not in is_same:
            return None
    # sqrt(x^2) is x where x is positive, and 2 ln x is ln x^2 there.
    if names and not (is_same.count(True) > 1 and _holds_beside(left, right, names, room)):
        return None
    return True if True in is_same else None


_BENDS = frozenset(["abs", "max", "min", "floor", "ceil", "gcd", "lcm", "root"])


def _has_bends(tree: Tree) -> bool:
    """Whether a tree may be another expression far away, as |x - 5| is 5 - x only below 5."""
    return isinstance(tree, tuple) and (
        (tree[0] in _BENDS and bool(variables(tree))) or any(map(_has_bends, tree[1:]))
    )


def _far_points(names: list[str]) -> list[dict[str, Fraction]]:
    """Integers and fractions of several sizes, all positive, all negative, and of mixed signs."""
    draw = random.Random(f"far {names}")
    signs = [(1, 1), (-1, -1), (1, -1), (-1, 1)][: 4 if len(names) > 1 else 2]
    return [
        {
            name: pair[place % 2] * Fraction(draw.randint(size, 9 * size), parts)
            for place, name in enumerate(names)
        }
        for size, parts, pair in itertools.product((4, 40, 400), (1, 7), signs)
    ]


def _holds_beside(left: Tree, right: Tree, names: list[str], room: float) -> bool:
    """Whether two trees agree at points that are not all positive, where their roots are real.

    x sqrt(x) and sqrt(x^3) do, x sqrt(y) and sqrt(x^2 y) do not.
    """
    points = _points(names, positive=False)
    differing = [at for at in points if _same_at(left, right, at, room) is False]
    if not differing:
        return True
    for signs in itertools.islice(itertools.product((1, -1), repeat=len(names)), 1, 16):
        at = {name: abs(points[0][name]) * sign for name, sign in zip(names, signs, strict=True)}
        if _same_at(left, right, at, room) is False:
            differing.append(at)
    return all(_leaves_reals(left, at) or _leaves_reals(right, at) for at in differing)


def _leaves_reals(tree: Tree, at: dict[str, Fraction]) -> bool:
    """Whether a tree takes an even root of what is not positive at a point."""
    if not isinstance(tree, tuple):
        return False
    if tree[0] in ("root", "^") and not variables(tree[2]):
        base, index = (_real_at(side, at) for side in tree[1:])
        is_whole = index is not None and index == int(index)
        is_odd = is_whole and int(index or 0) % 2
        if (base is None or base < 0) and not (is_odd if tree[0] == "root" else is_whole):
            return True
    return any(_leaves_reals(side, at) for side in tree[1:])


def _real_at(tree: Tree, point: dict[str, Fraction]) -> float | None:
    value = at(tree, {name: complex(number) for name, number in point.items()})
    return value.real if value is not None and abs(value.imag) <= _CLOSE * abs(value) else None


def _points(names: list[str], *, positive: bool) -> list[dict[str, Fraction]]:
    """Values for the variables, the same each time."""
    if not names:
        return [{}]
    draw = random.Random(f"{names}{positive}")
    span = (30, 290) if positive else (-290, -30)
    return [{name: Fraction(draw.randint(*span), 97) for name in names} for _ in range(_POINTS)]


def _same_at(left: Tree, right: Tree, at: dict[str, Fraction], room: float) -> bool | None:
    """Whether two trees have one value at a point; None if it is not known."""
    quick = _close(left, right, at, _FLOATS, max(room, _CLOSE))
    if quick is False or (room > _CLOSE and quick):
        return quick
    return _close(left, right, at, _digits(), max(room, _SAME))


def _close(
    left: Tree, right: Tree, at: dict[str, Fraction], field: Any, room: float
) -> bool | None:
    point = {name: field.number(number) for name, number in at.items()}
    try:
        a, b = (values.value(tree, point, field) for tree in (left, right))
        gap, size = abs(a - b), max(abs(a), abs(b))
        if not (field.is_finite(gap) and field.is_finite(size)):
            return None
    except _FAULTS:
        return None
    if gap <= room * size:
        return True
    # What is left of a cancellation to 0 is noise: another reading must decide.
    return None if size < (1e-6 if isinstance(gap, float) else 1e-40) else False

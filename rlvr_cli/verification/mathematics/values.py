"""The value of a tree: exactly where it is rational, else in floats, else to 50 digits."""

import cmath
import functools
import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

from rlvr_cli.verification.mathematics.formula import Tree

_MOST_BITS = 40_000  # of an exact numerator or denominator
_HIGHEST_EXPONENT = 1e8  # beyond which a power is not computed
_LARGEST_FACTORIAL = 3000


class Undefined(ArithmeticError):
    """Why a tree has no value here."""


class _Field(Protocol):
    """How numbers are computed with."""

    def number(self, value: Fraction) -> Any: ...
    def constant(self, name: str) -> Any: ...
    def apply(self, name: str, value: Any) -> Any: ...
    def power(self, base: Any, exponent: Any) -> Any: ...
    def root(self, value: Any, degree: int) -> Any: ...
    def factorial(self, value: Any) -> Any: ...


def value(tree: Tree, at: dict[str, Any], field: "_Field") -> Any:
    """The tree's value with its variables at these values; raises ArithmeticError, ValueError."""
    if isinstance(tree, Fraction):
        return field.number(tree)
    if isinstance(tree, str):
        return at[tree]
    name, *operands = tree
    if not operands:
        return field.constant(name)
    values = [value(operand, at, field) for operand in operands]
    if name in _PLAIN:
        return _PLAIN[name](*values)
    if name == "^":
        return field.power(*values)
    if name == "root":
        return _root(values[0], operands[1], values[1], field)
    if name == "factorial":
        return field.factorial(values[0])
    if name == "binom":
        above, below = values
        under = field.factorial(below) * field.factorial(above - below)
        return field.factorial(above) / under
    if name in _CHOOSE:
        return _CHOOSE[name](values, key=_rational)  # the value itself, with all its digits
    if name in _OF_REALS:
        return field.number(_OF_REALS[name](*map(_rational, values)))
    return field.apply(name, values[0])


_PLAIN: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "neg": operator.neg,
    "/": operator.truediv,
}  # fmt: skip
_CHOOSE: dict[str, Callable[..., Any]] = {"max": max, "min": min}
_OF_REALS: dict[str, Callable[..., Any]] = {
    "floor": math.floor, "ceil": math.ceil,
    "gcd": lambda *values: functools.reduce(math.gcd, map(_integer, values)),
    "lcm": lambda *values: functools.reduce(math.lcm, map(_integer, values)),
}  # fmt: skip


def _rational(value: Any) -> Any:
    if isinstance(value, Fraction):
        return value
    value = complex(value)
    if abs(value.imag) > 1e-12 or not math.isfinite(value.real):
        raise Undefined("no real number")
    return Fraction(value.real)


def _integer(value: Fraction) -> int:
    if value.denominator != 1:
        raise Undefined("no integer")
    return int(value)


def _root(value: Any, tree: Tree, degree: Any, field: _Field) -> Any:
    if isinstance(tree, Fraction) and tree.denominator == 1 and tree > 0:
        return field.root(value, int(tree))
    return field.power(value, 1 / degree)


class Exact:
    """Rational numbers; raises Undefined where a value is none."""

    def number(self, value: Any) -> Fraction:
        return Fraction(value)

    def constant(self, name: str) -> Fraction:
        raise Undefined(name)

    def apply(self, name: str, value: Fraction) -> Fraction:
        known = {"abs": abs(value)}
        if value == 0:
            known |= dict.fromkeys(("sin", "tan", "arcsin", "arctan", "sinh", "tanh"), Fraction(0))
            known |= dict.fromkeys(("cos", "exp", "cosh", "sec"), Fraction(1))
        if value == 1:
            known |= dict.fromkeys(("ln", "log"), Fraction(0))
        if name not in known:
            raise Undefined(name)
        return known[name]

    def power(self, base: Fraction, exponent: Fraction) -> Fraction:
        if exponent.denominator != 1:
            if base < 0:
                raise Undefined("a complex root")
            return self.power(self.root(base, exponent.denominator), Fraction(exponent.numerator))
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if bits > 1 and abs(exponent) * bits > _MOST_BITS:
            raise Undefined("too large")
        return base ** int(exponent)

    def root(self, value: Fraction, degree: int) -> Fraction:
        if value < 0:
            if degree % 2 == 0:
                raise Undefined("a complex root")
            return -self.root(-value, degree)
        result = Fraction(
            _integer_root(value.numerator, degree), _integer_root(value.denominator, degree)
        )
        if result**degree != value:
            raise Undefined("an irrational root")
        return result

    def factorial(self, value: Fraction) -> Fraction:
        number = _integer(value)
        if not 0 <= number <= _LARGEST_FACTORIAL:
            raise Undefined("a factorial")
        return Fraction(math.factorial(number))


def _integer_root(value: int, degree: int) -> int:
    if degree == 2 or value < 2:
        return math.isqrt(value)
    if degree > value.bit_length():
        return 1
    guess = 1 << (value.bit_length() // degree + 1)
    while True:  # Newton's method from above
        better = ((degree - 1) * guess + value // guess ** (degree - 1)) // degree
        if better >= guess:
            return guess
        guess = better


class Floats:
    """Complex numbers in double precision."""

    def is_finite(self, size: float) -> bool:
        return math.isfinite(size)

    def number(self, value: Any) -> complex:
        return complex(value)

    def constant(self, name: str) -> complex:
        return {"pi": complex(math.pi), "e": complex(math.e), "i": 1j}[name]

    def apply(self, name: str, value: complex) -> complex:
        return complex(
            _apply(cmath, name, value + 0j)
        )  # no negative zero, which chooses the branch

    def power(self, base: complex, exponent: complex) -> complex:
        return complex((base + 0j) ** exponent)

    def root(self, value: complex, degree: int) -> complex:
        value += 0j
        if degree % 2 and value.imag == 0 and value.real < 0:
            return complex(-((-value) ** (1 / degree)))
        return cmath.sqrt(value) if degree == 2 else complex(value ** (1 / degree))

    def factorial(self, value: complex) -> complex:
        if value.imag or value.real <= -1:
            raise Undefined("a factorial")
        return complex(math.gamma(value.real + 1))


class Digits:
    """Complex numbers to 50 digits, with mpmath, which is imported only here."""

    def __init__(self) -> None:
        import mpmath

        self.mp: Any = mpmath.mp.clone()
        self.mp.dps = 50

    def is_finite(self, size: Any) -> bool:
        return bool(self.mp.isfinite(size))

    def number(self, value: Any) -> Any:
        value = Fraction(value)
        return self.mp.mpf(value.numerator) / self.mp.mpf(value.denominator)

    def constant(self, name: str) -> Any:
        return {"pi": +self.mp.pi, "e": +self.mp.e, "i": self.mp.mpc(0, 1)}[name]

    def apply(self, name: str, value: Any) -> Any:
        return _apply(self.mp, name, value)

    def power(self, base: Any, exponent: Any) -> Any:
        if abs(exponent) > _HIGHEST_EXPONENT:
            raise Undefined("too large")
        return self.mp.power(base, exponent)

    def root(self, value: Any, degree: int) -> Any:
        if degree % 2 and self.mp.im(value) == 0 and self.mp.re(value) < 0:
            return -self.mp.root(-value, degree)
        return self.mp.root(value, degree)

    def factorial(self, value: Any) -> Any:
        if abs(value) > _HIGHEST_EXPONENT:
            raise Undefined("too large")
        return self.mp.factorial(value)


_NAMES = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "ln": "log"}
_RECIPROCAL = {"cot": "tan", "sec": "cos", "csc": "sin"}


def _apply(library: Any, name: str, value: Any) -> Any:
    if name == "abs":
        return abs(value) + value * 0
    if name in _RECIPROCAL:
        return 1 / getattr(library, _RECIPROCAL[name])(value)
    return getattr(library, _NAMES.get(name, name))(value)

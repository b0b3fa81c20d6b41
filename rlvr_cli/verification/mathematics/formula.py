r"""LaTeX arithmetic as a tree: `\frac{1+\sqrt5}{2}`, `2x^2-\sin 3x`, `n!`.

A tree is a number (a Fraction), a variable (its name) or a tuple of an operation and its operands.
What is ambiguous or no arithmetic raises `Unread`, and is left to math-verify.
"""

import functools
import re
from fractions import Fraction
from typing import Any

Tree = Any

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)|(?P<command>\\[a-zA-Z]+|\\[{}|])"
    r"|(?P<sign>[-+*/^_!|()\[\]{},])|(?P<letter>[a-zA-Z]))"
)
_SYMBOLS = {
    "×": r"\times ", "·": r"\cdot ", "÷": r"\div ", "π": r"\pi ", "√": r"\sqrt ", "²": "^2",
    "³": "^3", "∞": r"\infty ", "θ": r"\theta ", "−": "-", "**": "^", "α": r"\alpha ",
    "β": r"\beta ", "λ": r"\lambda ", "φ": r"\phi ", "ω": r"\omega ", "½": r"\frac{1}{2}",
}  # fmt: skip
_NAMED = re.compile(
    r"\\(?:operatorname|mathrm|text)\s*\{\s*"
    r"((?:arc)?(?:sin|cos|tan|cot|sec|csc)|[sc]osh|sinh|tanh|ln|log|lg|cis|exp|max|min|gcd|lcm)\s*\}"
)
_BARE = re.compile(
    r"(?<![a-zA-Z\\])(sqrt|(?:arc)?(?:sin|cos|tan)h?|cot|sec|csc|ln|log|exp|pi)(?![a-zA-Z])"
)
_DERIVATIVE = re.compile(r"\\[dt]?frac\s*\{\s*d[a-zA-Z^\s]*(?:\{?[0-9]\}?)?[a-zA-Z]?\s*\}\s*\{\s*d")
_LETTERS = re.compile(r"(?<![a-zA-Z\\])[a-zA-Z]{3,}")
FUNCTIONS = frozenset(
    [
        "sin",
        "cos",
        "tan",
        "cot",
        "sec",
        "csc",
        "arcsin",
        "arccos",
        "arctan",
        "sinh",
        "cosh",
        "tanh",
        "ln",
        "log",
        "exp",
        "lg",
        "cis",
    ]
)
_INVERSES = {"sin": "arcsin", "cos": "arccos", "tan": "arctan"}
_SEVERAL = frozenset(["max", "min", "gcd", "lcm"])
_VARIABLES = frozenset(
    [
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "varepsilon",
        "zeta",
        "eta",
        "theta",
        "vartheta",
        "iota",
        "kappa",
        "lambda",
        "mu",
        "nu",
        "xi",
        "rho",
        "sigma",
        "tau",
        "upsilon",
        "phi",
        "varphi",
        "chi",
        "psi",
        "omega",
        "Gamma",
        "Delta",
        "Theta",
        "Lambda",
        "Xi",
        "Sigma",
        "Phi",
        "Psi",
        "Omega",
        "ell",
        "hbar",
    ]
)
_TIMES = ("*", r"\cdot", r"\times", r"\ast")
_OVER = ("/", r"\div")
_BARS = ("|", r"\vert", r"\lvert", r"\rvert", r"\mid")
_PAIRS = {"(": ")", "[": "]", "{": "}", r"\lfloor": r"\rfloor", r"\lceil": r"\rceil"}
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_CALLABLE = frozenset("fghFGHPQ")  # f(x) is no product
_DEEPEST = 60


class Unread(Exception):
    """Why a text is no arithmetic that is read here."""


@functools.lru_cache(maxsize=4096)
def parsed(text: str) -> Tree:
    """The tree of a text; None if it is not read."""
    try:
        reader = _Reader(_tokens(text))
        tree = reader.sum()
        return tree if reader.at_end() else None
    except (Unread, RecursionError):
        return None


def _tokens(text: str) -> list[tuple[str, str]]:
    for symbol, spelled in _SYMBOLS.items():
        text = text.replace(symbol, spelled)
    text = _BARE.sub(r"\\\1 ", _NAMED.sub(r"\\\1 ", text))
    if _DERIVATIVE.search(text) or any(map(_is_word, _LETTERS.findall(text))):
        raise Unread(text)
    tokens, place = [], 0
    text = text.rstrip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if not match or not match.lastgroup:
            raise Unread(text[place])
        value = match[match.lastgroup]
        tokens.append((match.lastgroup, value))
        place = match.end()
    return tokens


def _is_word(letters: str) -> bool:
    """Whether letters are a word or points rather than a product of variables."""
    if letters.isupper() or re.search("sin|cos|tan|log|ln|sqrt|exp|deg", letters):
        return True
    return len(letters) > 3 and "".join(sorted(letters)) not in _ALPHABET


class _Reader:
    """Reads tokens from left to right, by the precedence of operations."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens = tokens
        self.place = 0
        self.bars = 0  # absolute values that are open
        self.depth = 0

    def at_end(self) -> bool:
        return self.place == len(self.tokens)

    def peek(self) -> str:
        return "" if self.at_end() else self.tokens[self.place][1]

    def kind(self) -> str:
        return "" if self.at_end() else self.tokens[self.place][0]

    def take(self, *wanted: str) -> str:
        value = self.peek()
        if not value or (wanted and value not in wanted):
            raise Unread(value or "its end")
        self.place += 1
        return value

    def sum(self) -> Tree:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise Unread("too deep")
        tree = self.signed()
        while self.peek() in ("+", "-"):
            sign = self.take()
            tree = (sign, tree, self.signed())
        self.depth -= 1
        return tree

    def signed(self) -> Tree:
        if self.peek() in ("+", "-"):
            sign = self.take()
            tree = self.signed()
            return ("neg", tree) if sign == "-" else tree
        return self.product()

    def product(self) -> Tree:
        tree = self.power()
        while True:
            if self.peek() in _TIMES:
                self.take()
                tree = ("*", tree, self._operand())
            elif self.peek() in _OVER:
                self.take()
                tree = ("/", tree, self._operand())
                if self.starts():
                    raise Unread("where a quotient ends, as in 1/2x")
            elif self.starts():
                if self.kind() == "number" and self.tokens[self.place - 1][1] != ")":
                    raise Unread("a number behind a factor")
                factor = self.power()
                tree = _mixed(tree, factor) or ("*", tree, factor)
            else:
                return tree

    def _operand(self) -> Tree:
        if self.peek() in ("+", "-"):
            return ("neg", self._operand()) if self.take() == "-" else self._operand()
        return self.power()

    def starts(self) -> bool:
        """Whether a factor begins here."""
        value, kind = self.peek(), self.kind()
        if value in _BARS:
            return self.bars == 0
        return (
            kind in ("number", "letter")
            or value in _PAIRS
            or (kind == "command" and value[1:] in _COMMANDS)
        )

    def power(self) -> Tree:
        tree = self.atom()
        while self.peek() in ("^", "!"):
            if self.take() == "!":
                if self.peek() == "!":
                    raise Unread("!!")
                tree = ("factorial", tree)
            else:
                tree = ("^", tree, self.exponent())
                if self.peek() == "^":
                    raise Unread("a second exponent")
        return tree

    def exponent(self) -> Tree:
        if self.peek() == "-":
            self.take()
            return ("neg", self.exponent())
        return self.group() if self.kind() != "number" else self.short_number()

    def short_number(self) -> Tree:
        """A number that follows a command; a plain text's `2^10` means 10 all the same."""
        return Fraction(self.take())

    def group(self) -> Tree:
        """What is in braces, else one token."""
        return self.within("{") if self.peek() == "{" else self.atom()

    def within(self, opening: str) -> Tree:
        self.take(opening)
        bars, self.bars = self.bars, 0
        tree = self.sum()
        self.take(_PAIRS[opening])
        self.bars = bars
        return tree

    def digit(self) -> Tree:
        r"""An operand of `\frac`: braces, or one digit or letter of what follows."""
        if self.kind() == "number" and len(value := self.peek()) > 1:
            if not value.isdigit():
                raise Unread(value)
            self.tokens[self.place] = ("number", value[1:])
            return Fraction(value[0])
        return self.group()

    def atom(self) -> Tree:
        kind, value = self.kind(), self.peek()
        if kind == "number":
            return Fraction(self.take())
        if kind == "letter":
            return self.letter()
        if value in _BARS:
            self.take()
            self.bars += 1
            tree = self.sum()
            self.take(*_BARS)
            self.bars -= 1
            return ("abs", tree)
        if value in (r"\lfloor", r"\lceil"):
            return ({r"\lfloor": "floor", r"\lceil": "ceil"}[value], self.within(value))
        if value in _PAIRS:
            return self.within(value)
        if kind == "command" and value[1:] in _COMMANDS:
            return self.command()
        raise Unread(value or "its end")

    def letter(self) -> Tree:
        name = self.take()
        if name in _CALLABLE and self.peek() == "(":
            raise Unread("a function's value")
        if [value for _, value in self.tokens[self.place : self.place + 3]] == ["(", "0", ")"]:
            raise Unread("a function's value at 0")
        if self.peek() == "_":
            return name + self.subscript()
        return (name,) if name in ("e", "i") else name

    def subscript(self) -> str:
        self.take("_")
        if self.peek() != "{":
            return "_" + self.take()
        parts: list[str] = []
        open_braces = 0
        while True:
            value = self.take()
            open_braces += {"{": 1, "}": -1}.get(value, 0)
            if open_braces == 0:
                return "_" + "".join(parts)
            if value not in ("{", "}", r"\mathrm", r"\text", r"\rm", r"\mathit"):
                parts.append(value)

    def command(self) -> Tree:
        name = self.take()[1:]
        if name in ("frac", "dfrac", "tfrac", "cfrac"):
            return ("/", self.digit(), self.digit())
        if name in ("binom", "dbinom", "tbinom"):
            return ("binom", self.digit(), self.digit())
        if name == "sqrt":
            if self.peek() == "[":
                degree = self.within("[")
                return ("root", self.digit(), degree)
            return ("root", self.digit(), Fraction(2))
        if name == "pi":
            return ("pi",)
        if name in _VARIABLES:
            return name + self.subscript() if self.peek() == "_" else name
        if name in _SEVERAL:
            return (name, *self.arguments())
        return self.function(name)

    def arguments(self) -> list[Tree]:
        is_set = self.take("(", "{", r"\{") == r"\{"
        values = [self.sum()]
        while self.peek() == ",":
            self.take()
            values.append(self.sum())
        self.take(r"\}" if is_set else ")", "}")
        return values

    def function(self, name: str) -> Tree:
        base: Tree = None
        power: Tree = None
        for _ in range(2):
            if self.peek() == "_" and name == "log":
                self.take()
                base = self.digit()
            elif self.peek() == "^":
                self.take()
                power = self.exponent()
        if power == ("neg", Fraction(1)):
            if name not in _INVERSES:
                raise Unread("the inverse of a function")
            name, power = _INVERSES[name], None
        is_in_brackets = self.peek() in ("(", "[")
        argument = self.argument()
        if is_in_brackets and self.peek() == "^" and power is None:  # sin(x)^2 is (sin x)^2
            self.take()
            power = self.exponent()
        tree: Tree = (name, argument)
        if name == "cis":
            tree = ("exp", ("*", ("i",), argument))
        if name == "lg":
            base, name = Fraction(10), "log"
        if name == "log" and base is not None:
            tree = ("/", ("ln", argument), ("ln", base))
        return tree if power is None else ("^", tree, power)

    def argument(self) -> Tree:
        r"""What a function is of: brackets, or the product before the next sign or function."""
        if self.peek() in ("(", "[", "{"):
            is_braced = self.peek() == "{"
            tree = self.within(self.peek())
            if is_braced and self.peek() == "^":
                raise Unread("a power of a function's argument")
            return tree
        if self.peek() == "-":
            self.take()
            return ("neg", self.argument())
        tree = self.power()
        while self.starts() and self.peek()[1:] not in FUNCTIONS and self.peek() != "(":
            tree = ("*", tree, self.power())
        if self.peek() in (*_OVER, *_TIMES, "("):
            raise Unread("where a function's argument ends")
        return tree


def _mixed(integer: Tree, factor: Tree) -> Tree:
    """The mixed number that an integer before a fraction makes; None if they make none."""
    is_fraction = isinstance(factor, tuple) and factor[0] == "/"
    if not isinstance(integer, Fraction) or integer.denominator != 1 or not is_fraction:
        return None
    above, below = factor[1:]
    if not isinstance(above, Fraction) or not isinstance(below, Fraction):
        return None
    if not 0 < above < below or above.denominator * below.denominator != 1:
        raise Unread("an integer before a fraction that is not proper")
    return ("+", integer, factor)


_COMMANDS = (
    FUNCTIONS
    | _SEVERAL
    | _VARIABLES
    | frozenset(
        [
            "frac",
            "dfrac",
            "tfrac",
            "cfrac",
            "binom",
            "dbinom",
            "tbinom",
            "sqrt",
            "pi",
            "lfloor",
            "lceil",
            "vert",
            "lvert",
        ]
    )
)


@functools.lru_cache(maxsize=4096)
def variables(tree: Tree) -> frozenset[str]:
    """The names of a tree's variables."""
    if isinstance(tree, str):
        return frozenset((tree,))
    if not isinstance(tree, tuple):
        return frozenset()
    return frozenset().union(*map(variables, tree[1:]))

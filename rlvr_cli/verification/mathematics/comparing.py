"""Whether an answer is the gold's: by its shape, and its parts by their values."""

import re

from rlvr_cli.verification.mathematics import (
    clocks,
    compounds,
    counting,
    equations,
    expressions,
    labelled,
    lists,
    numerals,
    plain,
    quantities,
    regions,
    shapes,
    tabular,
    trailers,
    units,
    words,
)
from rlvr_cli.verification.mathematics.matching import Again
from rlvr_cli.verification.mathematics.options import Options

_DEEPEST = 12


def equal(gold: str, answer: str, options: Options, depth: int = 0) -> bool:
    """Whether a cleaned answer is the cleaned gold."""
    if plain.squeezed(gold) == plain.squeezed(answer):
        return True
    if depth > _DEEPEST:
        return False
    if (figures := words.named(gold)) and figures == words.named(answer):
        return True
    gold, answer = map(shapes.without_idle_brackets, (gold, answer))
    in_words = words.equal(gold, answer)
    if in_words is not None:
        return in_words
    if words.same_option(gold, answer):
        return True
    gold, answer = _rewritten(gold, answer)
    if renamed := trailers.constants_of(gold, answer):
        return any(equal(gold, text, options, depth + 1) for text in renamed)
    if {plain.squeezed(gold), plain.squeezed(answer)} == _EMPTY_AND_ITS_SET:
        return False
    golds, answers = map(_sides_of_approximation, (gold, answer))
    if (len(golds), len(answers)) != (1, 1):
        pairs = [(left, right) for left in golds for right in answers]
        return any(equal(left, right, options, depth + 1) for left, right in pairs)
    gold, answer = golds[0], answers[0]
    decided = compounds.equal(gold, answer)
    if decided is None:
        decided = _equal_money(gold, answer)
    if decided is None:
        gold, answer = plain.without_money(gold), plain.without_money(answer)
        decided = False if _is_other_logic(gold, answer) else clocks.equal(gold, answer)
    if decided is not None:
        return decided
    (value, domain), (other, other_domain) = map(trailers.parted, (gold, answer))
    if domain and other_domain and domain != other_domain:
        return False
    gold, answer = value, trailers.in_letters_of(gold, value, answer, other)
    again = _again(options, depth)
    for decide in (
        _equal_in_base,
        clocks.equal_ratios,
        tabular.equal_cases,
        tabular.equal_matrices,
        _equal_regions,
        lists.equal,
        labelled.equal,
    ):
        decided = decide(gold, answer, options, again)
        if decided is not None:
            return decided
    return quantities.equal(gold, answer, options)


def _again(options: Options, depth: int) -> Again:
    return lambda gold, answer: equal(gold, answer, options, depth + 1)


def _rewritten(gold: str, answer: str) -> tuple[str, str]:
    """Both texts without a name that only one gives to a set or a point, with one `+ C` for all."""
    gold, answer = counting.in_latex(gold, answer), counting.in_latex(answer, gold)
    members = [_IN_SET.fullmatch(text) for text in (gold, answer)]
    if not all(members) or len({m[1].replace(" ", "") for m in members if m and "," in m[1]}) < 2:
        gold, answer = (m[2] if m else t for m, t in zip(members, (gold, answer), strict=True))
    if _RATIO.fullmatch(gold):
        answer = _TO.sub(r"\1:\2", answer)
    elif _RATIO.fullmatch(answer):
        gold = _TO.sub(r"\1:\2", gold)
    with_text = [_OPTION_TEXT.fullmatch(text) for text in (gold, answer)]
    if bool(with_text[0]) != bool(with_text[1]):
        gold, answer = (m[1] if m else t for m, t in zip(with_text, (gold, answer), strict=True))
    points = [_POINT.fullmatch(text) for text in (gold, answer)]
    if points[0] and answer.startswith("("):
        gold = points[0][1]
    if points[1] and gold.startswith("("):
        answer = points[1][1]
    if _CONSTANT.search(gold) and not re.search(r"(?<![a-zA-Z])C(?![a-zA-Z])", answer):
        answer = _OTHER_CONSTANT.sub("+ C", answer)
    return tabular.in_components(gold, answer), tabular.in_components(answer, gold)


_EMPTY_AND_ITS_SET = {r"\emptyset", r"\{\emptyset\}"}
_IN_SET = re.compile(
    r"([a-zA-Z]|\([a-zA-Z](?:\s*,\s*[a-zA-Z])+\s*\))\s*\\in(?![a-zA-Z])\s*"
    r"(\\\{(?:(?!\\mid|[|:]).)*\\\})"
)
_RATIO = re.compile(r"[0-9]+\s*:\s*[0-9]+")
_TO = re.compile(r"^([0-9]+)\s*(?:\\text\s*\{\s*to\s*\}|to)\s*([0-9]+)$")
_OPTION_TEXT = re.compile(
    r"\\(?:text|textbf|mathrm|mathbf)\s*\{\s*\([A-J]\)\s*\}\s*(\S.*)", re.DOTALL
)
_POINT = re.compile(r"[A-Z]\s*(\([^()]*,[^()]*\))")
_CONSTANT = re.compile(r"(?:^|\+)\s*C\s*(?:$|\+)")
_OTHER_CONSTANT = re.compile(r"\+\s*(?:[cKk]|\\text\s*\{\s*const(?:ant)?\.?\s*\})$")
_APPROX = re.compile(r"\s*\\(?:approx|simeq)(?![a-zA-Z])\s*")
_DECIMAL = re.compile(r"-?[0-9]+(?:\.([0-9]+))?")
_NEAR = 0.05  # what the two sides of an approximation differ by at most, relative


def _sides_of_approximation(text: str) -> list[str]:
    """The values that a text takes for nearly equal; several only where they may be."""
    parts = [part for part in _APPROX.split(text) if part]
    if len(parts) < 2:
        return [text]
    if shapes.is_label(parts[0]) and expressions.real(parts[0]) is None:
        parts = parts[1:]
    ends = [shapes.sides(part)[-1] for part in parts]
    return parts if all(map(_near, ends, ends[1:])) else []


def _near(left: str, right: str) -> bool:
    """Whether one value may be the other rounded; also where one is no number."""
    values = [expressions.real(text) for text in (left, right)]
    if values[0] is None or values[1] is None:
        return True
    gap, size = abs(values[0] - values[1]), max(map(abs, (values[0], values[1])))
    places = [len(m[1] or "") for t in (left, right) if (m := _DECIMAL.fullmatch(t.strip()))]
    unit = 10.0 ** -min(places) / len(places) if places else size
    return gap <= unit * (1 + 1e-9) and gap <= _NEAR * size


def _equal_money(gold: str, answer: str) -> bool | None:
    """Whether amounts of two currencies are the same; None if they are of one, or one has none."""
    names = plain.currency(gold), plain.currency(answer)
    if "" in names or names[0] == names[1]:
        return None
    if set(names) != {"cent", "dollar"}:
        return False
    amounts = [
        numerals.number(units.split(plain.without_money(text)).number) for text in (gold, answer)
    ]
    if amounts[0] is None or amounts[1] is None:
        return False
    left, right = (
        amount.value * (100 if name == "dollar" else 1)
        for amount, name in zip(amounts, names, strict=True)
        if amount
    )
    return left == right


_AND, _OR = re.compile(r"\\(?:land|wedge)(?![a-zA-Z])"), re.compile(r"\\(?:lor|vee)(?![a-zA-Z])")


def _is_other_logic(gold: str, answer: str) -> bool:
    """Whether one formula of logic has `and` where the other has `or`."""
    if re.search("[0-9=<>]", gold + answer):
        return False
    return any(bool(sign.search(gold)) != bool(sign.search(answer)) for sign in (_AND, _OR))


def _equal_in_base(gold: str, answer: str, options: Options, again: Again) -> bool | None:
    """Whether two numerals are the same, if one of them says its base; None if none does."""
    numerals_read = [numerals.in_base(gold), numerals.in_base(answer)]
    if not any(numerals_read):
        return False if numerals.is_indexed(gold) != numerals.is_indexed(answer) else None
    if all(numerals_read):
        return numerals_read[0] == numerals_read[1]
    numeral = numerals_read[0] or numerals_read[1]
    assert numeral
    other = answer if numerals_read[0] else gold
    if numerals.is_indexed(other):
        return False  # 25_4: no numeral of its base
    bare = other.replace(" ", "").upper().lstrip("0")
    if not bare.removeprefix("-").isalnum():
        return None
    return options.base == "lenient" and bare == numeral[0]


def _equal_regions(gold: str, answer: str, options: Options, again: Again) -> bool | None:
    """Whether two sets of real numbers are the same; None if none is one that is read."""
    is_region, other = regions.is_marked(gold), regions.is_marked(answer)
    if not is_region and not other:
        return lists.equal_brackets(gold, answer)
    if regions.is_relation(gold) != regions.is_relation(answer) and options.intervals == "strict":
        return False
    left, right = regions.read(gold), regions.read(answer)
    if left is None or right is None:
        return equations.same_order(gold, answer)
    is_list = any(text.startswith(r"\{") for text in (gold, answer))
    if is_list and {r.is_points for r in (left, right)} == {True}:
        return None  # the options of lists decide
    return regions.same(left, right, again)

"""Whether an answer is the gold's: by its shape, and its parts by their values."""

import re
from collections.abc import Callable

from rlvr_cli.verification.mathematics import (
    clocks,
    equations,
    expressions,
    numerals,
    plain,
    quantities,
    regions,
    shapes,
    symbolic,
    trailers,
    units,
    words,
)
from rlvr_cli.verification.mathematics.options import Options

Again = Callable[[str, str], bool]

_DEEPEST = 12


def equal(gold: str, answer: str, options: Options, depth: int = 0) -> bool:
    """Whether a cleaned answer is the cleaned gold."""
    if plain.squeezed(gold) == plain.squeezed(answer):
        return True
    if depth > _DEEPEST:
        return False
    gold, answer = map(shapes.without_idle_brackets, (gold, answer))
    said = words.equal(gold, answer)
    if said is not None:
        return said
    if words.same_option(gold, answer):
        return True
    gold, answer = _rewritten(gold, answer)
    golds, answers = map(_sides_of_approximation, (gold, answer))
    if (len(golds), len(answers)) != (1, 1):
        pairs = [(left, right) for left in golds for right in answers]
        return any(equal(left, right, options, depth + 1) for left, right in pairs)
    gold, answer = golds[0], answers[0]
    decided = _equal_money(gold, answer)
    if decided is None:
        gold, answer = plain.without_money(gold), plain.without_money(answer)
        decided = False if _is_other_logic(gold, answer) else clocks.equal(gold, answer)
    if decided is not None:
        return decided
    (gold, domain), (answer, other) = map(trailers.parted, (gold, answer))
    if domain and other and domain != other:
        return False
    for decide in (_equal_in_base, _equal_cases, _equal_matrices, _equal_regions,
                   _equal_lists, _equal_equations):  # fmt: skip
        decided = decide(gold, answer, options, depth)
        if decided is not None:
            return decided
    return quantities.equal(gold, answer, options)


def _again(options: Options, depth: int) -> Again:
    return lambda gold, answer: equal(gold, answer, options, depth + 1)


def _rewritten(gold: str, answer: str) -> tuple[str, str]:
    """The two without a name that one alone gives to a set or a point, one `+ C` for all."""
    gold, answer = (
        match[1] if (match := _IN_SET.fullmatch(text)) else text for text in (gold, answer)
    )
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
    return gold, answer


_IN_SET = re.compile(r"[a-zA-Z]\s*\\in(?![a-zA-Z])\s*(\\\{(?:(?!\\mid|[|:]).)*\\\})")
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


def _equal_in_base(gold: str, answer: str, options: Options, depth: int) -> bool | None:
    """Whether two numerals are the same, if one of them says its base; None if none does."""
    numerals_read = [numerals.in_base(gold), numerals.in_base(answer)]
    if not any(numerals_read):
        return None
    if all(numerals_read):
        return numerals_read[0] == numerals_read[1]
    numeral = numerals_read[0] or numerals_read[1]
    assert numeral
    bare = (answer if numerals_read[0] else gold).replace(" ", "").upper().lstrip("0")
    if not bare.isalnum():
        return None
    return options.base == "lenient" and bare == numeral[0]


def _equal_cases(gold: str, answer: str, options: Options, depth: int) -> bool | None:
    """Whether systems, or functions of pieces, are the same."""
    rows, others = shapes.rows_of_cases(gold), shapes.rows_of_cases(answer)
    if rows is None and others is None:
        return None
    if any(len(row) > 1 for row in (*(rows or ()), *(others or ()))):
        if rows is None or others is None or len(rows) != len(others):
            return False
        return _matched(
            list(map(_piece, rows)),
            list(map(_piece, others)),
            _again(options, depth),
            ordered=False,
        )
    left, right = (
        text if found is None else ", ".join(cell for row in found for cell in row)
        for text, found in ((gold, rows), (answer, others))
    )
    return equal(left, right, options, depth + 1)


WHEN = re.compile(r"\\text\s*\{[^{}]*\}|\b(?:if|for|when|otherwise)\b")


def _piece(row: tuple[str, ...]) -> str:
    """A row of a function of pieces as a pair of its value and its condition."""
    cells = [WHEN.sub(" ", cell).strip(" ,") or r"\mathbb{R}" for cell in row if cell]
    return f"\\langle {', '.join(cells)} \\rangle"


def _equal_matrices(gold: str, answer: str, options: Options, depth: int) -> bool | None:
    """Whether two matrices are the same, or a vector and the list of its components."""
    left, right = shapes.matrix(gold), shapes.matrix(answer)
    if left is None and right is None:
        return None
    again = _again(options, depth)
    if left and right:
        if options.matrices == "strict" and left[0] != right[0]:
            return False
        if [len(row) for row in left[1]] != [len(row) for row in right[1]]:
            return False
        return _matched(_cells(left[1]), _cells(right[1]), again, ordered=True)
    rows = (left or right)[1]  # type: ignore[index]
    listing = shapes.listing(answer if left else gold)
    if listing.brackets not in ("(", r"\langle", "[") or (len(rows) > 1 and len(rows[0]) > 1):
        return None
    cells, parts = _cells(rows), list(listing.items)
    golds, answers = (cells, parts) if left else (parts, cells)
    return _matched(golds, answers, again, ordered=True)


def _cells(rows: tuple[tuple[str, ...], ...]) -> list[str]:
    return [cell for row in rows for cell in row]


def _equal_regions(gold: str, answer: str, options: Options, depth: int) -> bool | None:
    """Whether two sets of real numbers are the same; None if none is one that is read."""
    is_region, other = regions.is_marked(gold), regions.is_marked(answer)
    if not is_region and not other:
        return _equal_brackets(gold, answer, options, depth)
    if regions.is_relation(gold) != regions.is_relation(answer) and options.intervals == "strict":
        return False
    left, right = regions.read(gold), regions.read(answer)
    if left is None or right is None:
        return None
    is_list = any(text.startswith(r"\{") for text in (gold, answer))
    if is_list and {r.is_points for r in (left, right)} == {True}:
        return None  # the options of lists decide
    return regions.same(left, right, _again(options, depth))


def _equal_brackets(gold: str, answer: str, options: Options, depth: int) -> bool | None:
    """Two pairs in brackets that differ are an open and a closed interval."""
    left, right = shapes.listing(gold), shapes.listing(answer)
    if len(left.items) != 2 or len(right.items) != 2 or left.brackets == right.brackets:
        return None
    half_open = [text[:1] in "([" and text[-1:] in ")]" and text[:1] + text[-1:] not in ("()", "[]")
                 for text in (gold, answer)]  # fmt: skip
    if any(half_open):
        return None
    return False if {left.brackets, right.brackets} == {"(", "["} else None


def _equal_lists(gold: str, answer: str, options: Options, depth: int) -> bool | None:
    """Whether two lists have the same values; None if neither has several."""
    if numerals.number(gold) and numerals.number(answer):
        return None
    left, right = shapes.listing(gold), shapes.listing(answer)
    both = shapes.spread(gold), shapes.spread(answer)
    if both[0] != gold and both[1] != answer:
        left, right = map(shapes.listing, both)
    if len(set(_labels(right))) > 1:
        left = shapes.listing(shapes.spread(gold))
    if len(set(_labels(left))) > 1:
        right = shapes.listing(shapes.spread(answer))
    left, right = _ungrouped(left, gold, right), _ungrouped(right, answer, left)
    left, right = _with_signs(left), _with_signs(right)
    if not left.items or not right.items:
        return False
    is_one = len(left.items) == len(right.items) == 1
    if is_one and any(len(shapes.sides(side.items[0])) > 1 for side in (left, right)):
        return None
    left, right = map(_value_of, (left, right))
    if len(left.items) < 2 and len(right.items) < 2 and not (left.brackets or right.brackets):
        return None
    if options.sets == "strict" and (left.brackets == r"\{") != (right.brackets == r"\{"):
        return False
    if len(left.items) == len(right.items) == 1 and (left.brackets or right.brackets):
        if {left.brackets, right.brackets} <= {"", r"\{", "["}:
            return equal(left.items[0], right.items[0], options, depth + 1)
        return None
    again = _again(options, depth)
    named = _labels(left), _labels(right)
    if named[0] and len(set(named[0])) > 1:
        return _equal_by_label(left, right, named[0], named[1], again)
    if named[0] and len({name.partition("_")[0] for name in named[1]}) > 1:
        return False
    golds, answers = (
        [shapes.labelled(item)[1] for item in side.items] if labels else list(side.items)
        for side, labels in zip((left, right), named, strict=True)
    )
    if left.brackets in ("(", "[", r"\langle"):
        if right.brackets == r"\{":
            return False
        return _matched(golds, answers, again, ordered=True)
    if right.brackets == r"\langle" or (left.brackets == r"\{" and right.brackets == "("):
        return False
    if left.brackets == r"\{" or len(set(golds)) == len(golds):
        golds, answers = _distinct(golds), _distinct(answers)
    return _matched(golds, answers, again, ordered=False)


def _value_of(listing: shapes.Listing) -> shapes.Listing:
    """The list that a single labelled value is, as in `(a, b) = (1, 2)`."""
    if len(listing.items) > 1 or len(shapes.sides(listing.items[0])) < 2:
        return listing
    return shapes.listing(shapes.labelled(listing.items[0])[1])


def _distinct(texts: list[str]) -> list[str]:
    return list({plain.squeezed(text).replace(" ", ""): text for text in texts}.values())


def _ungrouped(listing: shapes.Listing, text: str, other: shapes.Listing) -> shapes.Listing:
    """Several numbers rather than one with commas of thousands, where the other side is a list."""
    if len(listing.items) == 1 and len(other.items) > 1:
        return shapes.Listing(shapes.items(text, groups=False), listing.brackets)
    return listing


EITHER = re.compile(r"\\(?:pm|mp)(?![a-zA-Z])")


def _with_signs(listing: shapes.Listing) -> shapes.Listing:
    r"""The values of `\pm`, each with its own sign."""
    if not any(map(EITHER.search, listing.items)):
        return listing
    parts: list[str] = []
    for item in listing.items:
        if EITHER.search(item):
            parts.append(item.replace(r"\pm", "+").replace(r"\mp", "-").removeprefix("+"))
            parts.append(item.replace(r"\pm", "-").replace(r"\mp", "+").removeprefix("+"))
        else:
            parts.append(item)
    return shapes.Listing(
        tuple(re.sub(r"(^|=)\s*\+", r"\1", part) for part in parts), listing.brackets
    )


def _labels(listing: shapes.Listing) -> list[str]:
    """The label of each value, or none at all; one that has none has that of the one before."""
    labels: list[str] = []
    for item in listing.items:
        label = shapes.labelled(item)[0]
        if not label and not labels:
            return []
        labels.append(label or labels[-1])
    return labels


def _equal_by_label(
    left: shapes.Listing,
    right: shapes.Listing,
    names: list[str],
    others: list[str],
    again: Again,
) -> bool:
    """Whether the values of labels are the same; without labels those of the gold's order."""
    golds = [shapes.labelled(item)[1] for item in left.items]
    answers = [shapes.labelled(item)[1] for item in right.items]
    if not others or len(set(others)) != len(others):
        if not others and len(right.items) == 1:
            inside, brackets = shapes.without_brackets(right.items[0])
            answers = list(shapes.items(inside)) if brackets else answers
        return not others and _matched(golds, answers, again, ordered=True)
    if len(set(names)) != len(names) or set(names) != set(others):
        return False
    by_name = dict(zip(others, answers, strict=True))
    return all(again(gold, by_name[name]) for name, gold in zip(names, golds, strict=True))


def _matched(golds: list[str], answers: list[str], again: Again, *, ordered: bool) -> bool:
    """Whether each value has one that equals it, of its own place where the order counts."""
    if len(golds) != len(answers):
        return False
    if ordered:
        return all(map(again, golds, answers))
    left = list(answers)
    for gold in golds:
        place = next((i for i, answer in enumerate(left) if again(gold, answer)), None)
        if place is None:
            return False
        del left[place]
    return True


def _equal_equations(gold: str, answer: str, options: Options, depth: int) -> bool | None:
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
        if is_one is False and label and name and equal(value, other, options, depth + 1):
            return False
        if label and name and is_one:
            if equal(value, other, options, depth + 1):
                return True
            if label == name:
                return _same_equation(gold, answer, options) if value and "=" in value else False
        return _same_equation(gold, answer, options)
    if len(left) > 1:
        return equal(value, answer, options, depth + 1) if label else False
    if not name:
        other = right[-1]
        numbers = [expressions.rational(side) for side in (right[0], other)]
        if None not in numbers and numbers[0] != numbers[1]:
            return False
    return equal(gold, other, options, depth + 1)


_INDEX = re.compile(r"[_(\[^]")
_OF = re.compile(r"(.*[(_])([a-z])\)?")
_FIGURES = re.compile(r"^m?(?:angle|triangle|measuredangle)")


def _named_alike(label: str, name: str, value: str) -> tuple[bool, str]:
    """Whether two labels may be those of one thing, and the value of `f(t)` as that of `f(x)`."""
    if label == name:
        return True, value
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

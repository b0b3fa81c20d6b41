"""Whether lists, sets, tuples and pairs in brackets are equal."""

import re

from rlvr_cli.verification.mathematics import numerals, plain, shapes
from rlvr_cli.verification.mathematics.matching import Again, matched
from rlvr_cli.verification.mathematics.options import Options


def equal(gold: str, answer: str, options: Options, again: Again) -> bool | None:
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
            return again(left.items[0], right.items[0])
        return None
    named = _labels(left), _labels(right)
    if named[0] and len(set(named[0])) > 1:
        if len(set(named[0])) == len(named[0]) and bool(_OR.search(gold)) != bool(
            _OR.search(answer)
        ):
            return False
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
        return matched(golds, answers, again, ordered=True)
    if right.brackets == r"\langle" or (left.brackets == r"\{" and right.brackets == "("):
        return False
    if left.brackets == r"\{" or len(set(golds)) == len(golds):
        golds, answers = _distinct(golds), _distinct(answers)
    return matched(golds, answers, again, ordered=False)


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
        parts = shapes.items(text, groups=False)
        if not any(map(_PADDED.fullmatch, parts)):
            return shapes.Listing(parts, listing.brackets)
    return listing


_PADDED = re.compile("0[0-9]+")  # in 1,000 a part of a number and none


EITHER = re.compile(r"\\(?:pm|mp)(?![a-zA-Z])")


def _with_signs(listing: shapes.Listing) -> shapes.Listing:
    r"""The values of `\pm`, each with its own sign."""
    if not any(map(EITHER.search, listing.items)):
        return listing
    if listing.brackets in ("(", r"\langle") and len(listing.items) > 1:
        tuples = f"({', '.join(listing.items)})"
        return _with_signs(shapes.Listing((tuples,)))
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


_OR = re.compile(r"\\(?:lor|vee)(?![a-zA-Z])|(?<![a-zA-Z])(?:or|oder|ou)(?![a-zA-Z])|或")


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
        return not others and matched(golds, answers, again, ordered=True)
    if len(set(names)) != len(names) or set(names) != set(others):
        return False
    by_name = dict(zip(others, answers, strict=True))
    return all(again(gold, by_name[name]) for name, gold in zip(names, golds, strict=True))


def equal_brackets(gold: str, answer: str) -> bool | None:
    """Two pairs in brackets that differ are an open and a closed interval."""
    left, right = shapes.listing(gold), shapes.listing(answer)
    if len(left.items) != 2 or len(right.items) != 2 or left.brackets == right.brackets:
        return None
    half_open = [text[:1] in "([" and text[-1:] in ")]" and text[:1] + text[-1:] not in ("()", "[]")
                 for text in (gold, answer)]  # fmt: skip
    if any(half_open):
        return None
    return False if {left.brackets, right.brackets} == {"(", "["} else None

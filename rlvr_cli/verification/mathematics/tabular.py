"""Whether systems, functions of pieces, matrices and vectors are equal, row by row."""

import re

from rlvr_cli.verification.mathematics import piecewise, plain, regions, shapes
from rlvr_cli.verification.mathematics.matching import Again, matched
from rlvr_cli.verification.mathematics.options import Options


def equal_cases(gold: str, answer: str, options: Options, again: Again) -> bool | None:
    """Whether systems, or functions of pieces, are the same."""
    rows, others = rows_of(gold), rows_of(answer)
    if rows is None and others is None:
        return None
    if any(len(row) > 1 for row in (*(rows or ()), *(others or ()))):
        if rows is None or others is None:
            return _equal_in_pieces(rows or others or (), answer if rows else gold)
        if len(rows) != len(others):
            return False
        golds, answers = list(map(_piece, rows)), list(map(_piece, others))
        return any(
            matched(left, right, again, ordered=False)
            for left in _with_rest(golds, answers)
            for right in _with_rest(answers, golds)
        )
    left, right = (
        text if cases is None else ", ".join(cell for row in cases for cell in row)
        for text, cases in ((gold, rows), (answer, others))
    )
    return again(left, right)


def _equal_in_pieces(rows: tuple[tuple[str, ...], ...], other: str) -> bool:
    """Whether an expression, as `|x|`, is the function that the rows define."""
    if any(len(row) != 2 for row in rows):
        return False
    values, conditions = [row[0] for row in rows], [_condition(row[1]) for row in rows]
    return bool(piecewise.equal(values, conditions, shapes.labelled(other)[1]))


_PIECE = re.compile(
    r"(.+?),?\s*(?:\\(?:text|mathrm)\s*\{\s*)?,?\s*\b(?:((?:if|for|when)\b.+)"
    r"|(?:otherwise|else)\b[\s}]*)",
    re.DOTALL,
)


def rows_of(text: str) -> tuple[tuple[str, ...], ...] | None:
    """The rows of `cases`, and of `1 if x>0, 0 otherwise`; None of a text that has none."""
    rows = shapes.rows_of_cases(text)
    if rows is not None or not re.search(r"\b(?:if|for|when)\b", text):
        return rows
    label, equals, value = text.partition("=")
    parts = shapes.items(value.strip() if equals and shapes.is_label(label) else text)
    pieces = [_PIECE.fullmatch(part) for part in parts]
    if len(pieces) < 2 or not all(pieces):
        return None
    return tuple(
        (piece[1], _without_word(piece[2]) if piece[2] else r"\text{otherwise}")
        for piece in pieces
        if piece
    )


def _without_word(condition: str) -> str:
    """A condition without the word before it and the brace of its `\\text{`."""
    bare = re.sub(r"^(?:if|for|when)\s*(\}?)\s*", "", condition)
    return bare[:-1] if bare.count("}") > bare.count("{") else bare


WHEN = re.compile(r"\\text\s*\{[^{}]*\}|\b(?:if|for|when|otherwise)\b")
_WHEN = re.compile(r"\b(?:if|for|when|whenever|otherwise|else|is|are|an?)\b", re.IGNORECASE)


def _piece(row: tuple[str, ...]) -> str:
    """A row of a function of pieces as a pair of its value and its condition."""
    cells = [_condition(cell) or _REST for cell in row if cell]
    return f"\\langle {', '.join(cells)} \\rangle"


_REST = r"\mathbb{R}"


def _with_rest(pieces: list[str], others: list[str]) -> list[list[str]]:
    """The pieces, and these with one condition as "otherwise" where only the others say so."""
    ends = [f"{_REST} \\rangle" in "".join(side) for side in (pieces, others)]
    if ends != [False, True]:
        return [pieces]
    rests = [re.sub(r", [^,]* \\rangle$", lambda _: f", {_REST} \\rangle", p) for p in pieces]
    conditions = [piece.rpartition(", ")[2].removesuffix(r" \rangle") for piece in pieces]
    return [
        [*pieces[:n], rest, *pieces[n + 1 :]]
        for n, rest in enumerate(rests)
        if regions.is_rest(conditions[n], [*conditions[:n], *conditions[n + 1 :]])
    ]


def _condition(cell: str) -> str:
    """What a cell says without the words that introduce it: `n even` of "if n is even"."""
    return " ".join(_WHEN.sub(" ", plain.unwrapped(cell)).split()).strip(" ,.;")


def equal_matrices(gold: str, answer: str, options: Options, again: Again) -> bool | None:
    """Whether two matrices are the same, or a vector and the list of its components."""
    left, right = shapes.matrix(gold), shapes.matrix(answer)
    if left is None and right is None:
        return None
    if left and right:
        if options.matrices == "strict" and left[0] != right[0]:
            return False
        if [len(row) for row in left[1]] != [len(row) for row in right[1]]:
            return False
        return matched(_cells(left[1]), _cells(right[1]), again, ordered=True)
    rows = (left or right)[1]  # type: ignore[index]
    listing = shapes.listing(answer if left else gold)
    nested = [shapes.listing(item) for item in listing.items]
    if listing.brackets == "[" and all(row.brackets == "[" for row in nested):
        if [len(row.items) for row in nested] != [len(row) for row in rows]:
            return False
        cells, parts = _cells(rows), _cells(tuple(row.items for row in nested))
        return matched(*((cells, parts) if left else (parts, cells)), again, ordered=True)
    if listing.brackets not in ("(", r"\langle", "[") or (len(rows) > 1 and len(rows[0]) > 1):
        return None
    cells, parts = _cells(rows), list(listing.items)
    golds, answers = (cells, parts) if left else (parts, cells)
    return matched(golds, answers, again, ordered=True)


_BASIS = re.compile(r"(?<![a-zA-Z\\_^{])([ijk])(?![a-zA-Z])")
_SIGN = re.compile("[+-]")


def in_components(text: str, other: str) -> str:
    r"""`3i - 4j` as `\langle 3, -4 \rangle` where the other side is a vector; else as it is."""
    axes = _BASIS.findall(text)
    size = _dimension(other) if len(set(axes)) > 1 else 0
    if size == 0 or not set(axes) <= {*"ijk"[:size]}:
        return text
    if any(len(_BASIS.findall(term)) != 1 for term in shapes.parted(text, _SIGN)):
        return text
    parts = [_along(text, axis) for axis in "ijk"[:size]]
    return f"\\langle {', '.join(parts)} \\rangle"


def _along(text: str, axis: str) -> str:
    return _BASIS.sub(lambda name: f"({int(name[1] == axis)})", text)


def _dimension(text: str) -> int:
    """How many components a vector has; 0 for what is none of two or three."""
    if matrix := shapes.matrix(text):
        cells = _cells(matrix[1])
        size = len(cells) if 1 in (len(matrix[1]), len(matrix[1][0])) else 0
    else:
        listing = shapes.listing(text)
        size = len(listing.items) if listing.brackets in ("(", r"\langle") else 0
    return size if size in (2, 3) else 0


def _cells(rows: tuple[tuple[str, ...], ...]) -> list[str]:
    return [cell for row in rows for cell in row]

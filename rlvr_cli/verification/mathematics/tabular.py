"""Whether systems, functions of pieces, matrices and vectors are equal, row by row."""

import re

from rlvr_cli.verification.mathematics import shapes
from rlvr_cli.verification.mathematics.matching import Again, matched
from rlvr_cli.verification.mathematics.options import Options


def equal_cases(gold: str, answer: str, options: Options, again: Again) -> bool | None:
    """Whether systems, or functions of pieces, are the same."""
    rows, others = shapes.rows_of_cases(gold), shapes.rows_of_cases(answer)
    if rows is None and others is None:
        return None
    if any(len(row) > 1 for row in (*(rows or ()), *(others or ()))):
        if rows is None or others is None or len(rows) != len(others):
            return False
        return matched(
            list(map(_piece, rows)),
            list(map(_piece, others)),
            again,
            ordered=False,
        )
    left, right = (
        text if cases is None else ", ".join(cell for row in cases for cell in row)
        for text, cases in ((gold, rows), (answer, others))
    )
    return again(left, right)


WHEN = re.compile(r"\\text\s*\{[^{}]*\}|\b(?:if|for|when|otherwise)\b")


def _piece(row: tuple[str, ...]) -> str:
    """A row of a function of pieces as a pair of its value and its condition."""
    cells = [WHEN.sub(" ", cell).strip(" ,") or r"\mathbb{R}" for cell in row if cell]
    return f"\\langle {', '.join(cells)} \\rangle"


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
    if listing.brackets not in ("(", r"\langle", "[") or (len(rows) > 1 and len(rows[0]) > 1):
        return None
    cells, parts = _cells(rows), list(listing.items)
    golds, answers = (cells, parts) if left else (parts, cells)
    return matched(golds, answers, again, ordered=True)


def _cells(rows: tuple[tuple[str, ...], ...]) -> list[str]:
    return [cell for row in rows for cell in row]

r"""Whether an expression is a function of pieces: `|x|` is x where x >= 0, and else -x."""

import math
import random

from rlvr_cli.verification.mathematics import expressions, regions
from rlvr_cli.verification.mathematics.formula import parsed, variables
from rlvr_cli.verification.mathematics.regions import Piece

_STEPS = (0.0, 1e-3, 0.31, 1.7, 5.3, 17.9, 63.1, 211.0, 997.0)  # from an end of an interval
_CLOSE = 1e-9


def equal(values: list[str], conditions: list[str], expression: str) -> bool | None:
    """Whether an expression has each value where its condition holds, on all real numbers.

    An empty condition is "otherwise". None if they are not read, or leave out real numbers.
    """
    trees = [parsed(text) for text in (*values, expression)]
    parts = regions.partition(conditions)
    if None in trees or parts is None:
        return None
    names = frozenset().union(*map(variables, trees))
    unknown = {part.variable for part in parts} - {""}
    if len(unknown) != 1 or not unknown <= names:
        return None
    (name,) = unknown
    draw = random.Random(str(sorted(names)))
    others = {other: complex(draw.uniform(0.3, 3.0)) for other in sorted(names)}
    for tree, part in zip(trees[:-1], parts, strict=True):
        for place in (point for piece in part.pieces for point in _points(piece)):
            at = {**others, name: complex(place)}
            one, other = expressions.at(tree, at), expressions.at(trees[-1], at)
            if one is None or other is None:
                return None
            if abs(one - other) > _CLOSE * max(1.0, abs(one)):
                return False
    return True


def _points(piece: Piece) -> list[float]:
    """Points of an interval, near its ends and far from them."""
    low, high = piece.low, piece.high
    if low == high:
        return [low]
    if math.isinf(low) and math.isinf(high):
        low = 0.0
    if math.isinf(low):
        points = [high - step for step in _STEPS]
    elif math.isinf(high):
        points = [low + step for step in _STEPS]
    else:
        points = [low + (high - low) * n / len(_STEPS) for n in range(len(_STEPS))] + [high]
    return [
        x
        for x in points
        if (x > low or piece.has_low or math.isinf(low))
        and (x < high or piece.has_high or math.isinf(high))
    ]

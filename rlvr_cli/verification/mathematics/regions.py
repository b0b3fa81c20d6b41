r"""Sets of real numbers: `(-\infty, 1) \cup (2, \infty)`, `x < 1 or x > 2`, `\{x \mid x > 2\}`."""

import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from rlvr_cli.verification.mathematics import expressions, shapes

_RELATION = re.compile(r"\\(?:le|ge|neq)(?![a-zA-Z])|[<>]")
_MARK = re.compile(
    r"\\(?:le|ge|neq|cup|cap|setminus|emptyset|infty|in|mid)(?![a-zA-Z])|[<>]|\\mathbb|\\\{"
)
_UNION = re.compile(
    r"\s*\\(?:cup|lor|vee)(?![a-zA-Z])\s*|\s*\\text\s*\{\s*,?\s*(?:or|ou|oder)\s*\}\s*|\s+or\s+"
)
_MEETING = re.compile(
    r"\s*\\(?:cap|land|wedge)(?![a-zA-Z])\s*|\s*\\text\s*\{\s*,?\s*and\s*\}\s*|\s+and\s+"
)
_WITHOUT = re.compile(
    r"\s*(?:\\setminus|\\backslash|\\smallsetminus)(?![a-zA-Z])\s*|\s*(?<=\})\s*[-\\]\s*(?=\\\{)"
)
_COMMA = re.compile(r"\s*[,;]\s*(?:(?:\\text\s*\{)?\s*(?:and)\s*\}?\s+)?")
_ELEMENT = re.compile(
    r"^\s*([a-zA-Z](?:_\{?\w+\}?)?|[a-zA-Z]\([a-z]\))\s*\\in(?![a-zA-Z])\s*(.*)$", re.DOTALL
)
_BUILDER = re.compile(
    r"^\\\{\s*(.*?)\s*(?:\\mid(?![a-zA-Z])|\||:|\\colon)\s*(.*?)\s*\\\}$", re.DOTALL
)
_VARIABLE = re.compile(
    r"\s*(?:[a-zA-Z](?:_\{?\w+\}?)?|[a-zA-Z]\([a-z]\)|\\(?:alpha|beta|theta|lambda|phi|mu|omega))\s*"
)
_OUTWARD = re.compile(r"[\[\]][^,;\[\]]+[,;][^,;\[\]]+\[|\][^,;\[\]]+[,;][^,;\[\]]+\]")  # [0, 1[
_SIZE = re.compile(
    r"\s*(?:\||\\[lr]?vert)\s*([a-zA-Z])\s*(?:([-+])\s*([^|\\a-zA-Z]+?))?\s*(?:\||\\[lr]?vert)\s*"
)
_INFINITY = re.compile(r"\s*([-+]?)\s*\\infty\s*")


@dataclass(frozen=True)
class Piece:
    """An interval between two ends; each has a text and a value, and may belong to the interval."""

    low: float
    low_text: str
    has_low: bool
    high: float
    high_text: str
    has_high: bool


@dataclass(frozen=True)
class Region:
    """A set of real numbers as pieces in order; `variable` is that of its relations, if any."""

    pieces: tuple[Piece, ...]
    variable: str = ""

    @property
    def is_points(self) -> bool:
        """Whether it is several numbers, each for itself."""
        return bool(self.pieces) and all(piece.low == piece.high for piece in self.pieces)


Join = Callable[[Region, Region], Region]

_ALL = Region((Piece(-math.inf, "", False, math.inf, "", False),))
_NONE = Region(())


def is_marked(text: str) -> bool:
    """Whether a text has a sign that a set of real numbers may be written with."""
    return bool(_MARK.search(text) or _OUTWARD.fullmatch(text))


def is_relation(text: str) -> bool:
    return bool(_RELATION.search(text))


@functools.lru_cache(maxsize=1024)
def read(text: str) -> Region | None:
    """The set that a text means; None if it is none that is read here."""
    text = text.strip()
    for pattern, join in ((_UNION, _union), (_MEETING, _meeting)):
        parts = shapes.parted(text, pattern)
        if len(parts) > 1:
            return _joined([read(part) for part in parts], join)
    parts = shapes.parted(text, _WITHOUT)
    if len(parts) == 2:
        return _joined([read(parts[0]), _complement(read(parts[1]))], _meeting)
    if match := _ELEMENT.match(text):
        inner = read(match[2])
        return inner and Region(inner.pieces, shapes.name_of(match[1]))
    if text in (r"\mathbb{R}", r"(\mathbb{R})"):
        return _ALL
    if text == r"\emptyset":
        return _NONE
    if text.startswith(r"\{"):
        return _braced(text)
    if _RELATION.search(text):
        return _related(text)
    return _interval(text) or _value(text)


def _joined(regions: list[Region | None], join: Join) -> Region | None:
    result = regions[0]
    for other in regions[1:]:
        if result is None or other is None:
            return None
        names = {result.variable, other.variable} - {""}
        if len(names) > 1:
            return None
        result = Region(join(result, other).pieces, "".join(names))
    return result


def _braced(text: str) -> Region | None:
    match = _BUILDER.match(text)
    if not match:
        inside, brackets = shapes.without_brackets(text)
        return _points(inside) if brackets else None
    condition = read(match[2])
    domain = _ELEMENT.match(match[1])
    if domain and condition:
        return _joined([read(domain[2]), condition], _meeting)
    return condition if condition and _VARIABLE.fullmatch(match[1]) else None


def _points(text: str) -> Region | None:
    return _joined([_value(item) for item in shapes.items(text)], _union)


def _value(text: str) -> Region | None:
    label, value = shapes.labelled(text)
    end = _end(value)
    if end is None or math.isinf(end):
        return None
    return Region((Piece(end, value, True, end, value, True),), label)


def _end(text: str) -> float | None:
    """The value of an end; None if it is no real number."""
    if match := _INFINITY.fullmatch(text):
        return -math.inf if match[1] == "-" else math.inf
    return expressions.real(text)


def _interval(text: str) -> Region | None:
    if len(text) < 5 or text[0] not in "([]" or text[-1] not in ")][":
        return None
    ends = shapes.items(text[1:-1])
    if len(ends) != 2:
        return None
    low, high = map(_end, ends)
    if low is None or high is None or low > high:
        return None
    has_low, has_high = text[0] == "[" and low > -math.inf, text[-1] == "]" and high < math.inf
    return Region((Piece(low, ends[0], has_low, high, ends[1], has_high),))


def _related(text: str) -> Region | None:
    """The numbers for which relations hold: `1 < x \\le 2`, `x \\neq 1, 2`."""
    parts = shapes.parted(text, _COMMA)
    if len(parts) > 1:
        return _several(parts)
    operands = shapes.parted(text, _RELATION)
    signs = _RELATION.findall(text)
    if len(operands) != len(signs) + 1 or len(signs) > 2:
        return None
    sizes = [_SIZE.fullmatch(operand) for operand in operands]
    if len(operands) == 2 and any(sizes):
        return _within(operands, signs[0], sizes)
    places = [i for i, operand in enumerate(operands) if _VARIABLE.fullmatch(operand)]
    if len(places) != 1 or (len(signs) == 2 and places != [1]):
        return None
    place, result = places[0], _ALL
    for i, sign in enumerate(signs):
        other = operands[i] if i + 1 == place else operands[i + 1]
        side = _half(sign if i == place else _TURNED[sign], other)
        if side is None or (len(signs) == 2 and sign == r"\neq"):
            return None
        result = _meeting(result, side)
    return Region(result.pieces, shapes.name_of(operands[place]))


def _within(
    operands: tuple[str, ...], sign: str, sizes: list[re.Match[str] | None]
) -> Region | None:
    """The numbers whose distance from another is related to a bound, as in `|x - 1| < 2`."""
    first = sizes[0] is not None
    size, bound = (sizes[0], operands[1]) if first else (sizes[1], operands[0])
    sign = sign if first else _TURNED[sign]
    assert size
    middle, width = expressions.rational(size[3] or "0"), expressions.rational(bound)
    if middle is None or width is None or width <= 0 or sign == r"\neq":
        return None
    middle = middle if size[2] == "-" else -middle
    low, high = (str(end) for end in (middle - width, middle + width))
    outward = {"<": (">", "<", _meeting), ">": ("<", ">", _union),
               r"\le": (r"\ge", r"\le", _meeting), r"\ge": (r"\le", r"\ge", _union)}  # fmt: skip
    below, above, join = outward[sign]
    region = _joined([_half(below, low), _half(above, high)], join)
    return region and Region(region.pieces, size[1])


def _several(parts: tuple[str, ...]) -> Region | None:
    """Relations with commas between them: all hold, or if they cannot, one of them does."""
    if r"\neq" in parts[0]:
        head = parts[0].partition(r"\neq")[0]
        parts = tuple(part if _RELATION.search(part) else rf"{head}\neq {part}" for part in parts)
    regions = [read(part) for part in parts]
    meeting = _joined(regions, _meeting)
    if meeting is None or meeting.pieces:
        return meeting
    return _joined(regions, _union)


_TURNED = {"<": ">", ">": "<", r"\le": r"\ge", r"\ge": r"\le", r"\neq": r"\neq"}


def _half(sign: str, text: str) -> Region | None:
    end = _end(text)
    if end is None:
        return None
    if sign == r"\neq":
        return _complement(_value(text))
    if sign in ("<", r"\le"):
        return Region((Piece(-math.inf, "", False, end, text, sign != "<" and end < math.inf),))
    return Region((Piece(end, text, sign != ">" and end > -math.inf, math.inf, "", False),))


def _complement(region: Region | None) -> Region | None:
    if region is None:
        return None
    result = _ALL
    for piece in region.pieces:
        below = Piece(-math.inf, "", False, piece.low, piece.low_text, not piece.has_low)
        above = Piece(piece.high, piece.high_text, not piece.has_high, math.inf, "", False)
        sides = [p for p in (below, above) if not (math.isinf(p.low) and p.low == p.high)]
        result = _meeting(result, Region(tuple(sides)))
    return Region(result.pieces, region.variable)


def _meeting(left: Region, right: Region) -> Region:
    pieces = []
    for a in left.pieces:
        for b in right.pieces:
            low = max((a, b), key=lambda p: (p.low, not p.has_low))
            high = min((a, b), key=lambda p: (p.high, p.has_high))
            is_point = low.low == high.high and low.has_low and high.has_high
            if low.low < high.high or is_point:
                pieces.append(Piece(low.low, low.low_text, low.has_low,
                                    high.high, high.high_text, high.has_high))  # fmt: skip
    return Region(tuple(sorted(pieces, key=lambda p: p.low)))


def _union(left: Region, right: Region) -> Region:
    pieces: list[Piece] = []
    for piece in sorted((*left.pieces, *right.pieces), key=lambda p: (p.low, not p.has_low)):
        last = pieces[-1] if pieces else None
        touches = last and (
            piece.low < last.high or (piece.low == last.high and (piece.has_low or last.has_high))
        )
        if not last or not touches:
            pieces.append(piece)
            continue
        end = max((last, piece), key=lambda p: (p.high, p.has_high))
        pieces[-1] = Piece(last.low, last.low_text, last.has_low,
                           end.high, end.high_text, end.has_high)  # fmt: skip
    return Region(tuple(pieces))


def same(gold: Region, answer: Region, equal: Callable[[str, str], bool]) -> bool:
    """Whether two sets are equal, given what says that the texts of two ends are."""
    if gold.variable and answer.variable and gold.variable != answer.variable:
        return False
    if len(gold.pieces) != len(answer.pieces):
        return False
    return all(
        (a.has_low, a.has_high) == (b.has_low, b.has_high)
        and _same_end(a.low, a.low_text, b.low, b.low_text, equal)
        and _same_end(a.high, a.high_text, b.high, b.high_text, equal)
        for a, b in zip(gold.pieces, answer.pieces, strict=True)
    )


def partition(conditions: list[str]) -> list[Region] | None:
    """The set of each condition, of which an empty one is the rest; None if they leave out any."""
    sets = [read(condition) if condition else None for condition in conditions]
    known = [s for s in sets if s]
    if len(known) < len(sets) - (conditions.count("") == 1) or not known:
        return None
    covered = _joined(list(known), _union)
    rest = _complement(covered)
    if covered is None or rest is None or (rest.pieces and "" not in conditions):
        return None
    return [s or Region(rest.pieces, covered.variable) for s in sets]


def is_rest(condition: str, others: list[str]) -> bool:
    """Whether a condition is what the others leave; True if one of them is no set that is read."""
    rest, left = read(condition), _complement(_joined(list(map(read, others)), _union))
    if rest is None or left is None:
        return True
    return [(p.low, p.has_low, p.high, p.has_high) for p in rest.pieces] == [
        (p.low, p.has_low, p.high, p.has_high) for p in left.pieces
    ]


def _same_end(
    gold: float, gold_text: str, answer: float, text: str, equal: Callable[[str, str], bool]
) -> bool:
    if math.isinf(gold) or math.isinf(answer):
        return gold == answer
    return equal(gold_text, text)

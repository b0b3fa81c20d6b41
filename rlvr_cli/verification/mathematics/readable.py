"""Whether a text is of a shape that is compared, so that no right answer is lost in silence."""

import functools

from rlvr_cli.verification.mathematics import (
    clocks,
    compounds,
    counting,
    expressions,
    lists,
    numerals,
    plain,
    quantities,
    regions,
    shapes,
    symbolic,
    tabular,
    trailers,
    units,
    words,
)
from rlvr_cli.verification.mathematics.options import Options


@functools.lru_cache(maxsize=4096)
def is_readable(text: str, options: Options) -> bool:
    """Whether a cleaned text is of a shape that is compared rather than taken as it is."""
    if not text:
        return False
    if words.named(text):
        return True
    text = counting.in_latex(text, "")
    if numerals.number(text) or numerals.in_base(text) or plain.is_words(text):
        return True
    if clocks.is_one(text) or compounds.is_one(text) or expressions.is_read(text):
        return True
    text = shapes.without_idle_brackets(trailers.parted(plain.without_money(text))[0])
    if regions.is_marked(text) and regions.read(text) is not None:
        return True
    if (rows := tabular.rows_of(text)) is not None:
        cells = [tabular.WHEN.sub(" ", cell).strip(" ,") for row in rows for cell in row]
        return all(is_readable(cell, options) for cell in cells if cell)
    if (matrix := shapes.matrix(text)) is not None:
        return all(is_readable(cell, options) for row in matrix[1] for cell in row)
    listing = shapes.listing(text)
    if len(listing.items) > 1 or listing.brackets:
        values = [item for item in listing.items if item != r"\ldots"]
        return bool(values) and all(is_readable(item, options) for item in values)
    sides = shapes.sides(text)
    if len(sides) > 1:
        _, value = shapes.labelled(text)
        return (
            is_readable(value, options)
            if value != text
            else all(is_readable(s, options) for s in sides)
        )
    bare, _ = plain.without_percent(plain.without_degrees(text))
    number = units.split(
        plain.in_radians(text) if quantities.TRIGONOMETRY.search(text) else bare
    ).number
    if number != text and is_readable(number, options):
        return True
    if lists.EITHER.search(number):
        return is_readable(lists.EITHER.sub("+", number).removeprefix("+"), options)
    return symbolic.parsed(number) is not None

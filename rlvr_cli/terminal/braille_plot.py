"""A line plot in braille dots, for the terminal.

Drawn here because plotext 6.1 aborts the process on a NaN, and a loss may be one.
"""

import os
from typing import TextIO

from rlvr_cli.terminal.escape import line as line_of

Points = list[tuple[float, float]]
# (column, row) of a character: its dots as braille bits, and the series drawn last.
Canvas = dict[tuple[int, int], tuple[int, int]]

BLANK = 0x2800
# Bit of each dot of a character, by row and column.
DOT = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
# Dots drawn, dots of a period: lines differ without colour too.
DASHES = ((1, 1), (5, 8), (1, 3), (1, 6))
COLOURS = (34, 33, 32, 35, 36, 31)
LIMIT = 1e300


def line_plot(
    series: dict[str, Points],
    *,
    title: str = "",
    width: int = 80,
    height: int = 20,
    colour: bool = False,
) -> str:
    """The named lines over one pair of axes, in `width` columns and `height` lines.

    The legend has the last value of each line, and the names are safe to show; a NaN or infinite
    point leaves a gap. Never drawn smaller than 40 columns, or than 3 lines besides title, legend
    and x axis.
    """
    title, series = line_of(title), {line_of(name): points for name, points in series.items()}
    drawn = [p for points in series.values() for p in points if plottable(p)]
    if not drawn:
        return f"{title}\nnothing to plot".lstrip()
    width = max(40, width)
    legend = legend_lines(series, width=width, colour=colour)
    x_span, y_span = span([x for x, _ in drawn]), span([y for _, y in drawn])
    rows = max(3, height - (title != "") - 1 - len(legend))
    label_of_row = y_labels(y_span, rows)
    gutter = max(map(len, label_of_row.values()))
    columns = width - gutter - 1
    canvas: Canvas = {}
    for index, points in enumerate(series.values()):
        draw(canvas, to_dots(points, x_span, y_span, size=(2 * columns, 4 * rows)), index=index)
    lines = [title.center(width).rstrip()] if title else []
    for row in range(rows):
        cells = "".join(cell(canvas, (column, row), colour) for column in range(columns))
        edge = "┤" if row in label_of_row else "│"
        lines.append(f"{label_of_row.get(row, ''):>{gutter}}{edge}{cells}".rstrip())
    left, right = (f"{x:.6g}" for x in x_span)
    lines.append(" " * (gutter + 1) + left + right.rjust(columns - len(left)))
    return "\n".join(lines + legend)


def wants_colour(stream: TextIO) -> bool:
    """Whether the stream is a terminal and NO_COLOR is unset or empty (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def plottable(point: tuple[float, float]) -> bool:
    return all(abs(value) < LIMIT for value in point)


def span(values: list[float]) -> tuple[float, float]:
    """The least and the greatest value, moved apart if they are equal."""
    low, high = min(values), max(values)
    if high - low > 1e-12 * max(abs(low), abs(high)):
        return low, high
    margin = abs(high) / 10 or 1.0
    return low - margin, high + margin


def y_labels(ends: tuple[float, float], rows: int) -> dict[int, str]:
    """The label of the first, the middle and the last row."""
    low, high = ends
    middle = high - (4 * (rows // 2) + 1.5) / (4 * rows - 1) * (high - low)
    return {0: f"{high:.4g}", rows // 2: f"{middle:.4g}", rows - 1: f"{low:.4g}"}


def to_dots(
    points: Points,
    x_span: tuple[float, float],
    y_span: tuple[float, float],
    *,
    size: tuple[int, int],
) -> list[tuple[int, int] | None]:
    """The dot of each point, counted from the top left; None where there is nothing to draw."""

    def position(value: float, ends: tuple[float, float], dots: int) -> int:
        return round((value - ends[0]) / (ends[1] - ends[0]) * (dots - 1))

    return [
        (position(x, x_span, size[0]), size[1] - 1 - position(y, y_span, size[1]))
        if plottable((x, y))
        else None
        for x, y in points
    ]


def draw(canvas: Canvas, dots: list[tuple[int, int] | None], *, index: int) -> None:
    """Adds the dashed line through the dots to the canvas; a None breaks it."""
    travelled, last = 0, None
    for dot in dots:
        if dot is None:
            last = None
            continue
        start = last or dot
        steps = max(abs(dot[0] - start[0]), abs(dot[1] - start[1]))
        for step in range(steps + 1):
            if drawn_at(travelled + step, index):
                part = step / max(steps, 1)
                x = round(start[0] + part * (dot[0] - start[0]))
                y = round(start[1] + part * (dot[1] - start[1]))
                bits, _ = canvas.get((x // 2, y // 4), (0, index))
                canvas[x // 2, y // 4] = bits | DOT[y % 4][x % 2], index
        travelled, last = travelled + steps, dot


def drawn_at(distance: int, index: int) -> bool:
    on, period = DASHES[index % len(DASHES)]
    return distance % period < on


def cell(canvas: Canvas, position: tuple[int, int], colour: bool) -> str:
    if position not in canvas:
        return " "
    bits, index = canvas[position]
    return painted(chr(BLANK + bits), index, colour)


def painted(text: str, index: int, colour: bool) -> str:
    return f"\x1b[{COLOURS[index % len(COLOURS)]}m{text}\x1b[0m" if colour else text


def legend_lines(series: dict[str, Points], *, width: int, colour: bool) -> list[str]:
    """A sample, the name and the last value of each line, on as many lines as the width asks."""
    lines, used = [""], 0
    for index, (name, points) in enumerate(series.items()):
        pairs = [(drawn_at(2 * i, index), drawn_at(2 * i + 1, index)) for i in range(4)]
        sample = "".join(chr(BLANK + 0x04 * left + 0x20 * right) for left, right in pairs)
        value = f" {points[-1][1]:.4g}" if points else ""
        entry = f" {name}{value}"
        if used and used + len(sample + entry) + 3 > width:
            lines, used = [*lines, ""], 0
        gap = "   " if used else ""
        lines[-1] += gap + painted(sample, index, colour) + entry
        used += len(gap + sample + entry)
    return lines

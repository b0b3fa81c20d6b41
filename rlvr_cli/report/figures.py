"""Plots, and the values that they show at each place."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rlvr_cli.report import drawing
from rlvr_cli.report.drawing import INK, STAND_IN, Figure

DASHES: tuple[Any, ...] = (
    "solid", (0, (5, 2)), (0, (1.2, 1.6)), (0, (6, 2, 1.2, 2)), (0, (8, 3)), (0, (2.5, 1.5))
)  # fmt: skip
MARKERS = "osD^vP"
WIDE, NARROW = (4.3, 2.6), (3.3, 2.1)  # inches; the page scales a plot to its column
_MARKED = 64  # a line of more points than this has no marks
_MOST_LABELS = 400  # of more points than this every nth and the last have a label


@dataclass(frozen=True)
class Mark:
    """How a name is drawn: the CSS variable of its colour, and which dash and marker it has."""

    colour: str
    dash: int = 0


@dataclass(frozen=True)
class Line:
    """A line and the band around it; `labels` are the texts of its values at each x."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    mark: Mark
    labels: Sequence[str]
    low: Sequence[float | None] | None = None  # None where there is no interval
    high: Sequence[float | None] | None = None


@dataclass(frozen=True)
class Stack:
    """Counts or shares that are stacked on others; `labels` are their texts."""

    name: str
    values: Sequence[float]
    colour: str
    labels: Sequence[str]


@dataclass(frozen=True)
class Plot:
    """An SVG, and what it says at each x, places in thousandths of its width and height.

    `heads` and `x` are the names and the coordinates of the places; each of `series` has its
    name, colour, and by place its height (None without a dot) and its value in words.
    """

    svg: str
    x: list[int]
    heads: list[str]
    series: list[dict[str, Any]]


def lines(
    drawn: Sequence[Line],
    *,
    x_label: str,
    x_word: str,
    percent: bool = False,
    log_x: bool = False,
    log_y: bool = False,
    zero: bool = True,
    size: tuple[float, float] = WIDE,
) -> Plot:
    """Lines over one pair of axes with a band each; a NaN leaves a gap.

    The y axis starts at 0, unless `zero` is false or the axis is logarithmic. A place on the x axis
    is called `x_word` and its value.
    """
    with Figure(x_label, percent=percent, size=size) as figure:
        axes = figure.axes
        for line in drawn:
            _draw_line(axes, line)
        if log_x and min(min(line.x) for line in drawn) > 0:
            _log2_axis(axes, max(max(line.x) for line in drawn))
        values = [value for line in drawn for value in line.y]
        if log_y and not any(value <= 0 for value in values):
            axes.set_yscale("log")  # which takes the formatter away
            axes.yaxis.set_major_formatter(drawing.percent if percent else drawing.short)
            axes.yaxis.set_minor_formatter(lambda value, _: "")
        elif zero:
            axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        if percent:
            low, high = axes.get_ylim()
            axes.set_ylim(max(low, 0.0), 1.02 if high > 0.8 else max(high, 0.05))
        elif not any(values):
            axes.set_ylim(0, 1)
        return _labelled_lines(figure, drawn, x_word)


def _draw_line(axes: Any, line: Line) -> None:
    """A line with its band; of few points each has a mark."""
    colour, dash = STAND_IN[line.mark.colour], line.mark.dash
    marker = MARKERS[dash] if len(line.x) <= _MARKED else None
    axes.plot(
        line.x, line.y, color=colour, linestyle=DASHES[dash], linewidth=1.6, marker=marker,
        markersize=3.2,
    )  # fmt: skip
    if line.low is not None and line.high is not None:
        ends = ([math.nan if v is None else v for v in end] for end in (line.low, line.high))
        axes.fill_between(line.x, *ends, color=colour, alpha=0.16, linewidth=0)


def _labelled_lines(figure: Figure, drawn: Sequence[Line], x_word: str) -> Plot:
    svg = figure.svg()  # only then are the limits of the axes known
    places = sorted({value for line in drawn for value in line.x})
    places = [*places[:: -(-len(places) // _MOST_LABELS)], *places[-1:]]
    places = list(dict.fromkeys(places))
    series = []
    for line in drawn:
        at = {x: i for i, x in enumerate(line.x)}
        known = [at.get(x) for x in places]
        heights: list[int | None] = [
            None
            if i is None or not math.isfinite(line.y[i])
            else figure.place(line.x[i], line.y[i])[1]
            for i in known
        ]
        labels = ["" if i is None else line.labels[i] for i in known]
        series.append(
            {"name": line.name, "colour": line.mark.colour, "y": heights, "labels": labels}
        )
    x = [figure.place(value, 1.0)[0] for value in places]
    return Plot(svg, x, [f"{x_word} {value:g}" for value in places], series)


def _log2_axis(axes: Any, top: float) -> None:
    """A logarithmic x axis with ticks at powers of two up to `top`, about six of them."""
    axes.set_xscale("log", base=2)
    ticks = [2**i for i in range(int(math.log2(top)) + 1)] if top > 1 else [1]
    axes.set_xticks(ticks[:: max(1, len(ticks) // 6)], minor=False)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.minorticks_off()


def bars(
    edges: Sequence[float],
    stacks: Sequence[Stack],
    *,
    x_label: str,
    heads: Sequence[str],
    percent_x: bool = False,
) -> Plot:
    """A histogram: stacked counts between the edges; `heads` says what each bar is of."""
    with Figure(x_label, percent=False, size=WIDE) as figure:
        axes = figure.axes
        widths = [b - a for a, b in itertools.pairwise(edges)]
        floor = [0.0] * len(widths)
        for stack in stacks:
            axes.bar(
                edges[:-1], stack.values, widths, bottom=floor, align="edge",
                color=STAND_IN[stack.colour], edgecolor=INK, linewidth=0.25,
            )  # fmt: skip
            floor = [a + b for a, b in zip(floor, stack.values, strict=True)]
        if percent_x:
            axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
        axes.set_xlim(edges[0], edges[-1])
        middles = [(a + b) / 2 for a, b in itertools.pairwise(edges)]
        return _labelled_stacks(figure, middles, stacks, heads)


def areas(x: Sequence[float], stacks: Sequence[Stack], x_label: str) -> Plot:
    """Shares that add up to one, stacked, by x."""
    with Figure(x_label, percent=True, size=NARROW) as figure:
        colours = [STAND_IN[stack.colour] for stack in stacks]
        figure.axes.stackplot(
            x, *(stack.values for stack in stacks), colors=colours, step="mid", linewidth=0
        )
        figure.axes.set_ylim(0, 1)
        if len(x) > 1:
            figure.axes.set_xlim(x[0], x[-1])
        return _labelled_stacks(figure, x, stacks, [f"{x_label} {value:g}" for value in x])


def _labelled_stacks(
    figure: Figure, x: Sequence[float], stacks: Sequence[Stack], heads: Sequence[str]
) -> Plot:
    svg = figure.svg()  # only then are the limits of the axes known
    stride = -(-len(x) // _MOST_LABELS)
    series = [
        {
            "name": stack.name,
            "colour": stack.colour,
            "y": [None] * len(x[::stride]),
            "labels": list(stack.labels[::stride]),
        }
        for stack in stacks
    ]
    places = [figure.place(value, 1.0)[0] for value in x[::stride]]
    return Plot(svg, places, list(heads[::stride]), series)

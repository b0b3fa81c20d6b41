"""Plots as SVG that takes its colours and fonts from the page around it."""

import io
import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rlvr_cli.errors import UsageError

# Stand-ins that become CSS variables of the page: matplotlib wants colours that it can parse.
INK, FAINT = "#010203", "#010204"
SERIES = tuple(f"#0102{index:02x}" for index in range(0x10, 0x16))
_VARIABLES = {INK: "ink-2", FAINT: "rule"} | {c: f"s{i}" for i, c in enumerate(SERIES)}
DASHES: tuple[Any, ...] = (
    "solid", (0, (5, 2)), (0, (1.2, 1.6)), (0, (6, 2, 1.2, 2)), (0, (8, 3)), (0, (2.5, 1.5))
)  # fmt: skip
MARKERS = "osD^vP"
WIDE, NARROW = (4.3, 2.6), (3.3, 2.1)  # inches; the page scales a plot to its column
_TIPS = 64  # more points than this get no tooltip


@dataclass(frozen=True)
class Line:
    """A line, the band around it, and which colour and dash it has."""

    x: Sequence[float]
    y: Sequence[float]
    index: int
    low: Sequence[float | None] | None = None  # None where there is no interval
    high: Sequence[float | None] | None = None
    tips: Sequence[str] = field(default_factory=tuple)


def lines(
    drawn: Sequence[Line],
    *,
    x_label: str,
    percent: bool = False,
    log_x: bool = False,
    log_y: bool = False,
    zero: bool = True,
    size: tuple[float, float] = WIDE,
) -> str:
    """Lines over one pair of axes with a band each; a NaN leaves a gap.

    The y axis starts at 0, unless `zero` is false or the axis is logarithmic.
    """
    with _Figure(x_label, percent=percent, size=size) as figure:
        axes = figure.axes
        for line in drawn:
            _draw_line(figure, line)
        if log_x and min(min(line.x) for line in drawn) > 0:
            _log2_axis(axes, max(max(line.x) for line in drawn))
        values = [value for line in drawn for value in line.y]
        if log_y and not any(value <= 0 for value in values):
            axes.set_yscale("log")  # which takes the formatter away
            axes.yaxis.set_major_formatter(_percent if percent else _short)
            axes.yaxis.set_minor_formatter(lambda value, _: "")
        elif zero:
            axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        if percent:
            low, high = axes.get_ylim()
            axes.set_ylim(max(low, 0.0), 1.02 if high > 0.8 else max(high, 0.05))
        elif not any(values):
            axes.set_ylim(0, 1)
        return figure.svg()


def _draw_line(figure: "_Figure", line: Line) -> None:
    """A line with its band; of few points each has a mark, with its tooltip if it has one."""
    axes, colour, marker = figure.axes, SERIES[line.index], MARKERS[line.index]
    few = len(line.x) <= _TIPS
    axes.plot(
        line.x, line.y, color=colour, linestyle=DASHES[line.index], linewidth=1.6,
        marker=marker if few and not line.tips else None, markersize=3,
    )  # fmt: skip
    if line.low is not None and line.high is not None:
        ends = ([math.nan if v is None else v for v in end] for end in (line.low, line.high))
        axes.fill_between(line.x, *ends, color=colour, alpha=0.16, linewidth=0)
    for at, tip in enumerate(line.tips if few else ()):
        (mark,) = axes.plot(line.x[at], line.y[at], marker, color=colour, markersize=3.2)
        figure.explain(mark, tip)


def _log2_axis(axes: Any, top: float) -> None:
    """A logarithmic x axis with ticks at powers of two up to `top`, about six of them."""
    axes.set_xscale("log", base=2)
    ticks = [2**i for i in range(int(math.log2(top)) + 1)] if top > 1 else [1]
    axes.set_xticks(ticks[:: max(1, len(ticks) // 6)], minor=False)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.minorticks_off()


def bars(
    edges: Sequence[float],
    stacks: Sequence[tuple[Sequence[float], int]],
    *,
    x_label: str,
    tips: Sequence[str] = (),
    percent_x: bool = False,
) -> str:
    """A histogram: stacked counts between the edges, each stack with its colour's index."""
    with _Figure(x_label, percent=False, size=WIDE) as figure:
        axes = figure.axes
        widths = [b - a for a, b in itertools.pairwise(edges)]
        floor = [0.0] * len(widths)
        for counts, index in stacks:
            drawn = axes.bar(
                edges[:-1], counts, widths, bottom=floor, align="edge", color=SERIES[index],
                edgecolor=INK, linewidth=0.25, alpha=0.85,
            )  # fmt: skip
            for bar, tip in zip(drawn, tips, strict=False):
                figure.explain(bar, tip)
            floor = [a + b for a, b in zip(floor, counts, strict=True)]
        if percent_x:
            axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
        axes.set_xlim(edges[0], edges[-1])
        return figure.svg()


def areas(x: Sequence[float], stacks: Sequence[tuple[Sequence[float], int]], x_label: str) -> str:
    """Shares that add up to one, stacked, by x."""
    with _Figure(x_label, percent=True, size=NARROW) as figure:
        colours = [SERIES[index] for _, index in stacks]
        figure.axes.stackplot(
            x, *(values for values, _ in stacks), colors=colours, alpha=0.8, step="mid",
            linewidth=0,
        )  # fmt: skip
        figure.axes.set_ylim(0, 1)
        if len(x) > 1:
            figure.axes.set_xlim(x[0], x[-1])
        return figure.svg()


class _Figure:
    """A figure with quiet axes, and its SVG in the page's terms."""

    def __init__(self, x_label: str, *, percent: bool, size: tuple[float, float]) -> None:
        matplotlib, figure = _matplotlib()
        self._context = matplotlib.rc_context(
            {
                "svg.fonttype": "none",
                "svg.hashsalt": "rlvr",
                "font.size": 9.5,
                "axes.linewidth": 0.6,
            }
        )
        self._class, self._size = figure.Figure, size
        self._x_label, self._percent = x_label, percent
        self._tips: dict[str, str] = {}

    def __enter__(self) -> "_Figure":
        self._context.__enter__()
        self._figure = self._class(figsize=self._size)
        width, height = self._size  # laid out by hand: matplotlib's layouts double the time
        self._figure.subplots_adjust(
            left=0.56 / width, right=1 - 0.06 / width, bottom=0.48 / height, top=1 - 0.08 / height
        )
        self.axes = axes = self._figure.subplots()
        axes.set_xlabel(self._x_label, color=INK)
        axes.tick_params(which="both", colors=INK, width=0.6, length=3)
        axes.grid(axis="y", color=FAINT, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.spines["bottom"].set_color(INK)
        axes.margins(x=0.02)
        axes.yaxis.set_major_formatter(_percent if self._percent else _short)
        return self

    def __exit__(self, *details: Any) -> None:
        self._context.__exit__(*details)

    def explain(self, artist: Any, tip: str) -> None:
        """Gives a mark a tooltip."""
        name = f"tip{len(self._tips)}"
        artist.set_gid(name)
        self._tips[name] = tip

    def svg(self) -> str:
        out = io.StringIO()
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        self._figure.savefig(out, format="svg", transparent=True, metadata=metadata)
        return _for_page(out.getvalue(), self._tips)


def _percent(value: float, _: Any) -> str:
    return f"{100 * value:.3g}%"


def _short(value: float, _: Any) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _matplotlib() -> tuple[Any, Any]:
    try:
        import matplotlib
        from matplotlib import figure
    except ImportError as error:
        raise UsageError(
            "a report needs a package that is not installed", "pip install 'rlvr[report]'"
        ) from error
    return matplotlib, figure


def _for_page(svg: str, tips: dict[str, str]) -> str:
    """The svg element alone, its colours as variables, its fonts the page's, its marks explained.

    The ids are left to `unique`: several figures share a page.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    for size in ("width", "height"):
        svg = re.sub(rf'(<svg[^>]*?) {size}="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r" font-family: [^;\"]*;", "", svg)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r"\n\s*", "\n", svg)
    for colour, name in _VARIABLES.items():
        svg = svg.replace(colour, f"var(--{name})")
    for name, tip in tips.items():
        svg = svg.replace(f'<g id="{name}">', f"<g><title>{_escaped(tip)}</title>", 1)
    used = set(re.findall(r"#([\w.-]+)", svg))
    return re.sub(r' id="([^"]*)"', lambda m: m[0] if m[1] in used else "", svg)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def unique(svg: str, prefix: str) -> str:
    """The figure with a prefix on its ids and on the references to them."""
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}-", svg)
    return re.sub(r'href="#', f'href="#{prefix}-', svg)

"""A matplotlib figure with quiet axes, as SVG that takes its colours and fonts from the page."""

import io
import re
from typing import Any

from rlvr_cli.errors import UsageError

# The page's CSS variables: of lines and runs, and of verdicts.
SERIES = tuple(f"s{index}" for index in range(6))
RIGHT, WRONG, MIXED = "right", "wrong", "mixed"
# Stand-ins that become these variables: matplotlib wants colours that it can parse.
INK, _FAINT = "#010203", "#010204"
STAND_IN = {name: f"#0102{0x10 + i:02x}" for i, name in enumerate((*SERIES, RIGHT, WRONG, MIXED))}
_VARIABLES = {INK: "ink-2", _FAINT: "rule"} | {code: name for name, code in STAND_IN.items()}


class Figure:
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

    def __enter__(self) -> "Figure":
        self._context.__enter__()
        self._figure = self._class(figsize=self._size)
        width, height = self._size  # laid out by hand: matplotlib's layouts double the time
        self._figure.subplots_adjust(
            left=0.56 / width, right=1 - 0.06 / width, bottom=0.48 / height, top=1 - 0.08 / height
        )
        self.axes = axes = self._figure.subplots()
        axes.set_xlabel(self._x_label, color=INK)
        axes.tick_params(which="both", colors=INK, width=0.6, length=3)
        axes.grid(axis="y", color=_FAINT, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.spines["bottom"].set_color(INK)
        axes.margins(x=0.02)
        axes.yaxis.set_major_formatter(percent if self._percent else short)
        return self

    def __exit__(self, *details: Any) -> None:
        self._context.__exit__(*details)

    def place(self, x: float, y: float) -> tuple[int, int]:
        """The place of a point of the axes, in thousandths of the figure from its left and top."""
        right, up = self._figure.transFigure.inverted().transform(
            self.axes.transData.transform((x, y))
        )
        return round(1000 * right), round(1000 * (1 - up))

    def svg(self) -> str:
        out = io.StringIO()
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        self._figure.savefig(out, format="svg", transparent=True, metadata=metadata)
        return _for_page(out.getvalue())


def percent(value: float, _: Any) -> str:
    return f"{100 * value:.3g}%"


def short(value: float, _: Any) -> str:
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


def _for_page(svg: str) -> str:
    """Only the svg element, with its colours as variables and the page's fonts.

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
    used = set(re.findall(r"#([\w.-]+)", svg))
    return re.sub(r' id="([^"]*)"', lambda m: m[0] if m[1] in used else "", svg)


def unique(svg: str, prefix: str) -> str:
    """The figure with a prefix on its ids and on the references to them."""
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}-", svg)
    return re.sub(r'href="#', f'href="#{prefix}-', svg)

"""Figures as SVG and PNG files, by matplotlib (`pip install 'rlvr[plot]'`)."""

import importlib.util
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rlvr_cli.errors import UsageError
from rlvr_cli.lab.bandit import Trajectories
from rlvr_cli.lab.panels import Figure, curves_of
from rlvr_cli.storage import atomic

FORMATS = ("svg", "png")
HINT = "pip install 'rlvr[plot]'"
_WIDTH, _HEIGHT, _ACROSS = 3.6, 2.9, 4  # inches of a panel, panels of a row


def formats(text: str | None) -> tuple[str, ...]:
    """The formats of `svg,png`; by default both, or none where matplotlib is not installed."""
    installed = importlib.util.find_spec("matplotlib") is not None
    if text is None:
        return FORMATS if installed else ()
    chosen = tuple(name.strip() for name in text.split(",") if name.strip() not in ("", "none"))
    unknown = [name for name in chosen if name not in FORMATS]
    if unknown:
        raise UsageError(f"--format is `{text}`", "write svg, png, svg,png or none")
    if chosen and not installed:
        raise UsageError("figures as files need matplotlib, which is not installed", HINT)
    return chosen


def write(
    out: Path,
    figures: Sequence[Figure],
    trajectories: Callable[[str], Trajectories],
    kinds: Sequence[str],
) -> list[Path]:
    """One file a figure and format; the same data are the same bytes."""
    written = []
    for figure in figures if kinds else ():
        canvas = _draw(figure, trajectories)
        for kind in kinds:
            path = out / f"{figure.name}.{kind}"
            metadata = {"Date": None} if kind == "svg" else {"Software": None}
            data = io.BytesIO()
            canvas.savefig(data, format=kind, dpi=130, metadata=metadata)
            atomic.write_atomic(path, data.getvalue())
            written.append(path)
    return written


def _draw(figure: Figure, trajectories: Callable[[str], Trajectories]) -> Any:
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    matplotlib.rcParams["svg.hashsalt"] = "rlvr"
    across = min(_ACROSS, len(figure.panels))
    down = -(-len(figure.panels) // across)
    canvas = Canvas(figsize=(_WIDTH * across, _HEIGHT * down), layout="constrained")
    axes = canvas.subplots(down, across, squeeze=False).flatten()
    for panel, axis in zip(figure.panels, axes, strict=False):
        for line in curves_of(panel, trajectories):
            (shown,) = axis.plot(line.step_R, line.mean_R, label=line.label, linewidth=1.4)
            axis.fill_between(
                line.step_R, line.low_R, line.high_R, color=shown.get_color(), alpha=0.15, lw=0
            )
        axis.set(title=panel.title, xlabel="step", ylabel=panel.y)
        axis.title.set_size("small")
        axis.set_ylim(bottom=0)
        axis.legend(fontsize="x-small", frameon=False)
    for axis in axes[len(figure.panels) :]:
        axis.set_axis_off()
    canvas.suptitle(figure.title, fontsize="medium")
    return canvas

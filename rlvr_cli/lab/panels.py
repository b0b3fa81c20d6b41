"""Figures of sweeps: which panels they have, and their lines with bands over seeds.

Shapes: S seeds, R recorded steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rlvr_cli.lab import outcome
from rlvr_cli.lab.bandit import Trajectories
from rlvr_cli.lab.sweep import LabRun
from rlvr_cli.terminal.braille_plot import Points, line_plot

BAND = (0.1, 0.9)  # quantiles over seeds


@dataclass(frozen=True)
class PanelLine:
    """A quantity of a run, under the name that the legend shows."""

    label: str
    run: LabRun
    quantity: str


@dataclass(frozen=True)
class FigurePanel:
    """Lines over one pair of axes."""

    title: str
    y: str
    lines: tuple[PanelLine, ...]


@dataclass(frozen=True)
class Figure:
    """Panels of one published figure."""

    name: str
    title: str
    panels: tuple[FigurePanel, ...]


@dataclass(frozen=True)
class PanelCurve:
    """A line's mean over seeds, and the band of its quantiles, at the recorded steps."""

    label: str
    step_R: np.ndarray
    mean_R: np.ndarray
    low_R: np.ndarray
    high_R: np.ndarray


def runs_of(figures: Sequence[Figure]) -> list[LabRun]:
    """The runs that the figures show, each once."""
    lines = [line for figure in figures for panel in figure.panels for line in panel.lines]
    return list({line.run.name: line.run for line in lines}.values())


def curves_of(panel: FigurePanel, trajectories: Callable[[str], Trajectories]) -> list[PanelCurve]:
    """The lines of a panel with their bands."""
    curves = []
    for line in panel.lines:
        run = trajectories(line.run.name)
        value_SR = outcome.curve(line.run.system, run, line.quantity)
        low_R, high_R = np.quantile(value_SR, BAND, axis=0)
        curves.append(PanelCurve(line.label, run.step_R, value_SR.mean(0), low_R, high_R))
    return curves


def in_terminal(panel: FigurePanel, lines: Sequence[PanelCurve], *, colour: bool) -> str:
    """The means of a panel's lines as braille, 78 columns wide."""
    series: dict[str, Points] = {
        line.label: list(zip(line.step_R.tolist(), line.mean_R.tolist(), strict=True))
        for line in lines
    }
    title = f"{panel.title}: {panel.y}".replace("\n", ", ")
    return line_plot(series, title=title, width=78, height=14, colour=colour)

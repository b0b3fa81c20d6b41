"""The tables and plots that commands print."""

from collections.abc import Mapping, Sequence
from math import log2
from typing import Any

from rich.table import Table

from rlvr_cli.plot import line_plot, wants_colour

Interval = Sequence[float | None]
PERCENT = ("pass@", "maj@", "avg@", "ucr", "distinct-", "truncated", "top-")


def number(name: str, value: float | None, *, sign: bool = False) -> str:
    """A metric's value in its unit: percent for shares, two or three digits otherwise."""
    if value is None:
        return "-"
    plus = "+" if sign else ""
    if name.startswith(PERCENT):
        return f"{100 * value:{plus}.1f}%"
    return f"{value:{plus}.2f}"


def interval(name: str, values: Interval, *, sign: bool = False) -> str:
    """`mean [low, high]`; the mean alone where there is no interval."""
    mean, low, high = (number(name, value, sign=sign) for value in values)
    return mean if values[1] is None else f"{mean} [{low}, {high}]"


def metrics_table(
    metrics: Mapping[str, Interval], errors: Mapping[str, float | None] | None = None
) -> Table:
    """One row a metric: its mean and interval, and its standard error if given."""
    table = Table(box=None, pad_edge=False)
    table.add_column("metric")
    table.add_column("mean [95% interval]", justify="right")
    if errors:
        table.add_column("standard error", justify="right")
    for name, values in metrics.items():
        error = [number(name, errors[name])] if errors else []
        table.add_row(name, interval(name, values), *error)
    return table


def by_k(intervals: Mapping[str, Interval], title: str, out: Any) -> str:
    """The means of metrics named `metric@k` against log2 k with the ends of their intervals."""
    points = [(log2(int(name.partition("@")[2])), ends) for name, ends in intervals.items()]
    names = ("mean", "95% low", "95% high")
    series = {
        name: [(k, value) for k, ends in points if (value := ends[i]) is not None]
        for i, name in enumerate(names)
    }
    return line_plot(series, title=title, width=78, height=18, colour=wants_colour(out))


def comparison_table(
    columns: Sequence[str],
    rows: Mapping[str, Sequence[Interval]],
    difference: str,
) -> Table:
    """One row a metric: its value in each column, and the paired difference last, signed."""
    table = Table(box=None, pad_edge=False)
    table.add_column("metric")
    for column in [*columns, difference]:
        table.add_column(column, justify="right")
    for name, cells in rows.items():
        shown = [interval(name, cell) for cell in cells[:-1]]
        table.add_row(name, *shown, interval(name, cells[-1], sign=True))
    return table


def curves(records: Sequence[Mapping[str, Any]], names: Sequence[str], title: str, out: Any) -> str:
    """The held-out metrics of a run by step, as a plot for the terminal `out`."""
    series = {
        name: [(r["step"], r["eval"][name][0]) for r in records if "eval" in r] for name in names
    }
    return line_plot(series, title=title, width=78, height=16, colour=wants_colour(out))

"""The tables and plots that commands print."""

from collections.abc import Iterator, Mapping, Sequence
from math import log2, nan
from typing import Any

from rich.table import Table

from rlvr_cli.terminal import plural
from rlvr_cli.terminal.braille_plot import line_plot, wants_colour

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
    """`mean [low, high]`; only the mean if there is no interval."""
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


def methods(method_of: Mapping[str, str]) -> str:
    """The methods of the intervals, as in `95% intervals: Gaffke (pass@1)`, or why none exists."""
    why = {"none": "none: too few prompts differ"}
    named = {
        why.get(method, method): [name for name, own in method_of.items() if own == method]
        for method in dict.fromkeys(method_of.values())
    }
    listed = (
        f"{method} ({', '.join(names[:6])}{f' and {len(names) - 6} more' * (len(names) > 6)})"
        for method, names in named.items()
    )
    return "95% intervals: " + ", ".join(listed if len(named) > 1 else named)


def notes(of: Mapping[str, Sequence[str]]) -> list[str]:
    """The notes of each side: with its name, or once where a note holds for all sides."""
    lines: dict[str, list[str]] = {}
    for side, said in of.items():
        for line in filter(None, said):
            lines.setdefault(line, []).append(side)
    return [
        line if len(sides) == len(of) else f"{', '.join(f'`{side}`' for side in sides)}: {line}"
        for line, sides in lines.items()
    ]


def benchmarks_table(figures: Mapping[str, Mapping[str, Any]]) -> Table:
    """One row a benchmark: prompts x completions, each metric at 1 or n, and what went wrong.

    An interval is printed below its mean, so that the table fits most terminals.
    """
    table = Table(box=None, pad_edge=False)
    table.add_column("benchmark", overflow="fold")
    for name in ("prompts x n", "Pass@1", "Pass@n", "Maj@n", "UCC@n", "truncated", "unanswered"):
        table.add_column(name, justify="right", overflow="fold")
    for benchmark, row in figures.items():
        n, metrics = row["n"], row["metrics"]
        total = f" of {row['of']}" if row["prompts"] < row["of"] else ""
        names = ("pass@1", f"pass@{n}", f"maj@{n}", f"ucc@{n}")
        cells = [interval(name, metrics[name]) if name in metrics else "-" for name in names]
        shares = [number("truncated", row[name]) for name in ("truncated", "unanswered")]
        cells = [cell.replace(" [", "\n[") for cell in cells]
        table.add_row(benchmark, f"{row['prompts']}{total} x {n}", *cells, *shares)
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


def verdicts(words: Mapping[str, str], comparisons: int = 1) -> Iterator[str]:
    """A line for each verdict with its metrics, and how many comparisons they hold for."""
    for word in dict.fromkeys(words.values()):
        yield f"{word}: {', '.join(name for name, own in words.items() if own == word)}"
    if comparisons > 1:
        yield f"verdicts hold for {comparisons} comparisons together (Holm); each interval is 95%"


def flips_table(buckets: Sequence[Any]) -> Table:
    """One row a bucket of difficulty: its prompts, those gained and lost, and the flip rate."""
    table = Table(box=None, pad_edge=False)
    table.add_column("solved by the first")
    for name in ("prompts", "gained", "lost", "flip rate", "change of c/n"):
        table.add_column(name, justify="right")
    for bucket in buckets:
        upto = f"{100 * bucket.upto:.3g}%"
        name = "never" if bucket.upto == 0 else f"{100 * bucket.above:.3g}% to {upto}"
        cells = [str(bucket.prompts), str(bucket.gained), str(bucket.lost)]
        if bucket.prompts:
            cells += [number("pass@", bucket.gained / bucket.prompts),
                      number("pass@", bucket.change, sign=True)]  # fmt: skip
        table.add_row(name, *cells)
    return table


def solved(
    gained: Sequence[str], lost: Sequence[str], crossings: Sequence[int], ahead: str
) -> Iterator[str]:
    """Which prompts only one of two solves, and which is ahead at which k."""
    for word, names in (("gained", gained), ("lost", lost)):
        if names:
            more = f" and {len(names) - 8} more" if len(names) > 8 else ""
            yield f"{word}: {', '.join(names[:8])}{more}"
    other = {"first": "second", "second": "first"}
    line = f"mean Pass@k: {ahead} is ahead at k = 1"
    for k in crossings:
        ahead = other.get(ahead, ahead)
        line += f", {ahead} from k = {k}"
    yield line


def frontier_table(points: Sequence[tuple[str, float, float, bool]]) -> Table:
    """One row a run: Pass@1, Pass@K, and whether no other is better in one and as good in both."""
    table = Table(box=None, pad_edge=False)
    for name in ("", "pass@1", "pass@K", "on the frontier"):
        table.add_column(name, justify="left" if name == "" else "right")
    for path, one, most, on in points:
        table.add_row(path, number("pass@", one), number("pass@", most), "yes" if on else "no")
    return table


def power_table(power: Mapping[str, Any]) -> Table:
    """The prompts that show a difference: a row for each n, a column for each correlation."""
    table = Table(box=None, pad_edge=False)
    table.add_column("completions")
    for correlation in power["correlations"]:
        table.add_column(f"correlation {correlation:g}", justify="right")
    for n, prompts in power["prompts"].items():
        table.add_row(n, *("-" if needed is None else f"{needed:,}" for needed in prompts))
    return table


def power_lines(power: Mapping[str, Any]) -> Iterator[str]:
    """What the table is of, and what the prompts at hand show."""
    yield (
        f"prompts that show a paired difference of {100 * power['difference']:g} points of Pass@1 "
        f"{100 * power['power']:g} times in 100, by completions a prompt in each run and by the "
        "correlation of both runs' pass rates"
    )
    own = power["own"]
    shown = ["nothing" if s is None else f"{100 * s:.1f}" for s in own["shows"]]
    at = ", ".join(f"{correlation:g}" for correlation in power["correlations"])
    yield (
        f"{plural.of(own['prompts'], 'prompt')} with {own['n']} completions show "
        f"{', '.join(shown)} points at "
        f"correlation {at}"
    )


def contrast_plots(
    curves: Mapping[str, Sequence[tuple[int, float]]],
    points: Sequence[tuple[str, float, float, bool]],
    out: Any,
) -> Iterator[str]:
    """Pass@k against log2 k of each run, and each as a cross at Pass@1 and Pass@K."""
    series = {name: [(log2(k), value) for k, value in line] for name, line in curves.items()}
    options: dict[str, Any] = {"width": 78, "colour": wants_colour(out)}
    yield line_plot(series, title="Pass@k against log2 k", height=18, **options)
    crosses = {path: _cross(one, most) for path, one, most, _ in points}
    yield line_plot(crosses, title="Pass@K against Pass@1", height=18, **options)


def _cross(x: float, y: float, size: float = 0.01) -> list[tuple[float, float]]:
    return [(x - size, y), (x + size, y), (nan, nan), (x, y - size), (x, y + size)]


def curves(records: Sequence[Mapping[str, Any]], names: Sequence[str], title: str, out: Any) -> str:
    """The held-out metrics of a run by step, as a plot for the terminal `out`."""
    series = {
        name: [(r["step"], r["eval"][name][0]) for r in records if "eval" in r] for name in names
    }
    return line_plot(series, title=title, width=78, height=16, colour=wants_colour(out))

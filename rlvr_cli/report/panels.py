"""The plots of a report, each with its legend, its numbers as a table, and its definition."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rlvr_cli.report import figures, training
from rlvr_cli.report.drawing import MIXED, RIGHT as RIGHT_COLOUR, WRONG as WRONG_COLOUR
from rlvr_cli.report.figures import Line, Mark, Plot, Stack
from rlvr_cli.report.palette import Palette
from rlvr_cli.report.rows import ENTROPY_BIN, RIGHT, UNKNOWN, WRONG
from rlvr_cli.report.sources import ReportSource
from rlvr_cli.report.subject import Subject
from rlvr_cli.terminal import tables

BINS = 24
_TABLE_ROWS = 40  # of more steps than this the table shows every nth and the last


@dataclass(frozen=True)
class ReportTable:
    """Headings, and rows of cells; the first cell of a row names it."""

    heads: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Panel:
    """A plot with its legend, table and note."""

    title: str
    key: str  # of its glossary entry
    plot: Plot
    legend: list[tuple[str, Mark]]
    table: ReportTable
    note: str = ""
    filled: bool = False  # whether its colours fill areas instead of lines


def by_k(subjects: Sequence[Subject], palette: Palette, metric: str, title: str) -> Panel:
    """Pass@k or UCC@k of every subject, with bands."""
    percent = metric == "pass"
    drawn, rows = [], []
    for subject in subjects:
        cells = [subject.intervals[f"{metric}@{k}"] for k in subject.ks]
        labels = [tables.interval(f"{metric}@", cell) for cell in cells]
        mean, low, high = zip(*cells, strict=True)
        ends = (low, high) if any(end is not None for end in low) else (None, None)
        drawn.append(Line(subject.name, subject.ks, mean, palette.run(subject.name), labels, *ends))
        rows += [[subject.name, f"{k}", s] for k, s in zip(subject.ks, labels, strict=True)]
    plot = figures.lines(
        drawn, x_label="k, completions drawn of a prompt", x_word="k =", percent=percent,
        log_x=True,
    )  # fmt: skip
    table = ReportTable(["", "k", f"{title} [95% interval]"], rows)
    return Panel(title, metric, plot, _legend(drawn), table, "Band: 95% interval over prompts.")


def _legend(drawn: Sequence[Line]) -> list[tuple[str, Mark]]:
    return [(line.name, line.mark) for line in drawn]


def spread(subjects: Sequence[Subject], palette: Palette) -> Iterator[Panel]:
    """How many prompts have which share of right completions, one plot a subject."""
    for subject in subjects:
        share_P = subject.tallied.correct_P / subject.tallied.n_P
        top = int(subject.tallied.n_P.min())
        bins = top + 1 if top < BINS else BINS
        count, _ = np.histogram(share_P, bins, (-0.5 / (bins - 1), 1 + 0.5 / (bins - 1)))
        edges = np.linspace(-0.5 / (bins - 1), 1 + 0.5 / (bins - 1), bins + 1)
        middle = np.linspace(0, 1, bins)
        rows = [[f"{m:.0%}", f"{c}"] for m, c in zip(middle, count.tolist(), strict=True)]
        labels = [f"{c:,} prompt{'' if c == 1 else 's'}" for c in count.tolist()]
        colour = palette.run(subject.name).colour
        plot = figures.bars(
            edges.tolist(), [Stack(subject.name, count.tolist(), colour, labels)], percent_x=True,
            x_label="share of a prompt's completions that are right",
            heads=[f"{share} right" for share, _ in rows],
        )  # fmt: skip
        table = ReportTable(["share right, about", "prompts"], rows)
        yield Panel(_of("Prompts by share right", subject, subjects), "spread", plot, [], table)


def lengths(subjects: Sequence[Subject]) -> Iterator[Panel]:
    """Histograms of length by verdict, one plot a subject over the same bins."""
    for unit in dict.fromkeys(s.rows.unit for s in subjects):
        alike = [s for s in subjects if s.rows.unit == unit]
        edges = _length_edges(np.concatenate([s.rows.length_N for s in alike]))
        for subject in alike:
            rows = subject.rows
            stacks = _length_stacks(subject, edges)
            heads = [f"{low:.0f} to {high - 1:.0f} {unit}" for low, high in pairwise(edges)]
            plot = figures.bars(
                edges.tolist(), stacks, heads=heads, x_label=f"length of a completion in {unit}"
            )
            beyond = int((rows.length_N > edges[-1]).sum())
            note = f"{rows.truncated} of {len(rows.cut_N):,} truncated."
            note += f" {beyond:,} longer than the axis are in the last bar." if beyond else ""
            table = ReportTable(
                ["from", *(stack.name for stack in stacks)],
                [[f"{edge:.0f}", *(stack.labels[b] for stack in stacks)]
                 for b, edge in enumerate(edges[:-1].tolist())],
            )  # fmt: skip
            legend = [(stack.name, Mark(stack.colour)) for stack in stacks]
            title = _of("Length by verdict", subject, subjects)
            yield Panel(title, "length", plot, legend, table, note, filled=True)


def _length_stacks(subject: Subject, edges: np.ndarray) -> list[Stack]:
    """The counts of each verdict that occurs."""
    kinds = (("right", RIGHT, RIGHT_COLOUR), ("wrong", WRONG, WRONG_COLOUR))
    stacks = []
    for name, code, colour in (*kinds, ("no verdict", UNKNOWN, MIXED)):
        of_kind = subject.rows.verdict_N == code
        length_N = subject.rows.length_N[of_kind].clip(edges[0], edges[-1])
        count = np.histogram(length_N, edges)[0].tolist()
        if any(count):
            stacks.append(Stack(name, count, colour, [f"{c:,}" for c in count]))
    return stacks


def _length_edges(length_N: np.ndarray) -> np.ndarray:
    """Integer edges of about BINS bars up to the 99.5th percentile."""
    top = int(np.quantile(length_N, 0.995)) + 1
    width = max(1, -(-top // BINS))
    return np.arange(0, top + width, width)


def entropies(subjects: Sequence[Subject], palette: Palette) -> Iterator[Panel]:
    """The token entropies of every subject that has some, in one plot."""
    known = [s for s in subjects if s.rows.entropy_count.sum()]
    if not known:
        return
    longest = max(len(s.rows.entropy_count) for s in known)
    edges = np.arange(longest) * ENTROPY_BIN
    drawn, shares = [], []
    for subject in known:
        count = np.pad(subject.rows.entropy_count, (0, longest - len(subject.rows.entropy_count)))
        shares.append(count / count.sum())
        shown_B = np.where(count > 0, shares[-1], np.nan)  # an empty bin leaves a gap
        middle = (edges + ENTROPY_BIN / 2).round(2).tolist()
        labels = [f"{100 * share:.3g}%" for share in shares[-1].tolist()]
        mark = palette.run(subject.name)
        drawn.append(Line(subject.name, middle, shown_B.tolist(), mark, labels))
    plot = figures.lines(
        drawn, x_label="entropy at a token, nats", x_word="nats:", percent=True, log_y=True
    )
    table = ReportTable(
        ["from, nats", *(s.name for s in known)],
        [[f"{edge:.1f}", *(f"{100 * share[b]:.3g}%" for share in shares)]
         for b, edge in enumerate(edges.tolist())],
    )  # fmt: skip
    note = "Share of all tokens in bins of 0.1 nats, log scale."
    yield Panel("Token entropy", "entropy", plot, _legend(drawn), table, note)


def of_training(sources: Sequence[ReportSource], palette: Palette) -> Iterator[Panel]:
    """The training curves of all runs, one plot a quantity that any of them logged."""
    runs = [(s.name, s.run) for s in sources if s.run]
    for title, key, names in training.PANELS:
        curves = [(n, c) for n, run in runs for c in training.curves(run, key, names)]
        if curves:
            several = len({c.name for _, c in curves}) > 1 or "@" in curves[0][1].name
            yield _of_curves(title, key, curves, palette, runs=len(runs), named=several)
    for title, key, logged, figure in training.BY_SOURCE:
        curves = [(n, c) for n, run in runs for c in training.curves_by_source(run, logged, figure)]
        if curves:
            yield _of_curves(title, key, curves, palette, runs=len(runs), named=True, unit=figure)


def _of_curves(
    title: str,
    key: str,
    curves: list[tuple[str, training.Curve]],
    palette: Palette,
    *,
    runs: int,
    named: bool,
    unit: str = "",
) -> Panel:
    """A plot of curves: of several runs each has its run's colour, of one run its own.

    `unit` is the figure that all of them show, where their names are not those of figures.
    """
    drawn, rows = [], []
    names = list(dict.fromkeys(curve.name for _, curve in curves))
    for run, curve in curves:
        own = curve.name if unit else curve.name.capitalize().replace("Ucc", "UCC")
        name = " · ".join([run] * (runs > 1) + [own] * named) or run
        if not named:
            mark = palette.run(run)
        elif runs > 1:
            dash = names.index(curve.name) % len(figures.DASHES)
            mark = Mark(palette.run(run).colour, dash)
        else:
            mark = palette.line(curve.name[curve.name.find("@") :] if not unit else curve.name)
        labels = _labels(curve, unit)
        drawn.append(Line(name, curve.step, curve.value, mark, labels, curve.low, curve.high))
        rows += _curve_rows(name, curve, labels)
    plot = figures.lines(
        drawn, x_label="step", x_word="step", percent=key in training.SHARES,
        zero=key != "kl_start", size=figures.NARROW,
    )  # fmt: skip
    banded = any(line.low for line in drawn)
    note = "Band: 95% interval over prompts." if banded else "One value a step; no interval."
    table = ReportTable(["", "step", "value"], rows)
    return Panel(title, key, plot, _legend(drawn) if runs > 1 or named else [], table, note)


def _curve_rows(name: str, curve: training.Curve, labels: list[str]) -> list[list[str]]:
    """The numbers of a curve, of many steps every nth and the last."""
    stride = -(-len(curve.step) // _TABLE_ROWS)
    steps = sorted({*range(0, len(curve.step), stride), len(curve.step) - 1})
    return [[name, f"{curve.step[at]}", labels[at]] for at in steps]


def _labels(curve: training.Curve, figure: str = "") -> list[str]:
    """The value of a curve at each of its steps, with its interval if it has one."""
    shares = ("informative", "clip_fraction", "correct")
    figure = figure or curve.name
    unit = "pass@" if figure in shares else figure

    def shown(at: int) -> str:
        if curve.low is None or curve.high is None:
            value = curve.value[at]
            small = not unit.startswith(tables.PERCENT) and abs(value) < 0.1
            return f"{value:.3g}" if small else tables.number(unit, value)
        return tables.interval(unit, (curve.value[at], curve.low[at], curve.high[at]))

    return [shown(at) for at in range(len(curve.step))]


def signal(sources: Sequence[ReportSource]) -> Iterator[Panel]:
    """The verdicts of each step's groups, one plot a run."""
    runs = [s for s in sources if s.run]
    for source in runs:
        shares = training.signal(source.run) if source.run else None
        if shares is None:
            continue
        kinds = [
            ("all right", shares.right, RIGHT_COLOUR),
            ("both", shares.mixed, MIXED),
            ("all wrong", shares.wrong, WRONG_COLOUR),
        ]
        stacks = [Stack(n, v, c, [f"{value:.1%}" for value in v]) for n, v, c in kinds]
        plot = figures.areas(shares.step, stacks, "step")
        stride = -(-len(shares.step) // _TABLE_ROWS)
        rows = [
            [f"{shares.step[at]}", *(stack.labels[at] for stack in stacks)]
            for at in range(0, len(shares.step), stride)
        ]
        table = ReportTable(["step", *(stack.name for stack in stacks)], rows)
        title = "Groups by verdict" + (f", {source.name}" if len(runs) > 1 else "")
        legend = [(stack.name, Mark(stack.colour)) for stack in stacks]
        yield Panel(title, "signal", plot, legend, table, "Shares of a step's groups.", filled=True)


def _of(title: str, subject: Subject, subjects: Sequence[Subject]) -> str:
    return f"{title}, {subject.name}" if len(subjects) > 1 else title

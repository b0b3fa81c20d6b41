"""The plots of a report, each with its legend, its numbers as a table, and its definition."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from rlvr_cli.report import figures, training
from rlvr_cli.report.figures import Line
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
    """A plot with its legend, table and note; legend entries are a name and a colour's index."""

    title: str
    key: str  # of its glossary entry
    svg: str
    legend: list[tuple[str, int]]
    table: ReportTable
    note: str = ""
    filled: bool = field(default=False)  # whether its colours fill areas instead of lines


def by_k(subjects: Sequence[Subject], metric: str, title: str) -> Panel:
    """Pass@k or UCC@k of every subject, with bands."""
    percent = metric == "pass"
    drawn, rows = [], []
    for index, subject in enumerate(subjects):
        cells = [subject.intervals[f"{metric}@{k}"] for k in subject.ks]
        shown = [tables.interval(f"{metric}@", cell) for cell in cells]
        mean, low, high = zip(*cells, strict=True)
        banded = any(end is not None for end in low)
        tips = [f"{subject.name}, k = {k}: {s}" for k, s in zip(subject.ks, shown, strict=True)]
        drawn.append(
            Line(subject.ks, mean, index, low if banded else None, high if banded else None, tips)
        )
        rows += [[subject.name, f"{k}", s] for k, s in zip(subject.ks, shown, strict=True)]
    svg = figures.lines(
        drawn, x_label="k, completions drawn of a prompt", percent=percent, log_x=True
    )
    legend = [(s.name, i) for i, s in enumerate(subjects)]
    table = ReportTable(["", "k", f"{title} [95% interval]"], rows)
    return Panel(title, metric, svg, legend, table, "Band: 95% interval over prompts.")


def spread(subjects: Sequence[Subject]) -> Iterator[Panel]:
    """How many prompts have which share of right completions, one plot a subject."""
    for index, subject in enumerate(subjects):
        share_P = subject.tallied.correct_P / subject.tallied.n_P
        top = int(subject.tallied.n_P.min())
        bins = top + 1 if top < BINS else BINS
        count, _ = np.histogram(share_P, bins, (-0.5 / (bins - 1), 1 + 0.5 / (bins - 1)))
        edges = np.linspace(-0.5 / (bins - 1), 1 + 0.5 / (bins - 1), bins + 1)
        middle = np.linspace(0, 1, bins)
        rows = [[f"{m:.0%}", f"{c}"] for m, c in zip(middle, count.tolist(), strict=True)]
        svg = figures.bars(
            edges.tolist(), [(count.tolist(), index)], percent_x=True,
            x_label="share of a prompt's completions that are right",
            tips=[f"{m} right: {c} prompts" for m, c in rows],
        )  # fmt: skip
        table = ReportTable(["share right, about", "prompts"], rows)
        yield Panel(_of("Prompts by share right", subject, subjects), "spread", svg, [], table)


def lengths(subjects: Sequence[Subject]) -> Iterator[Panel]:
    """Histograms of length by verdict, one plot a subject over the same bins."""
    kinds = (("right", RIGHT, 2), ("wrong", WRONG, 1), ("no verdict", UNKNOWN, 3))
    for unit in dict.fromkeys(s.rows.unit for s in subjects):
        alike = [s for s in subjects if s.rows.unit == unit]
        edges = _length_edges(np.concatenate([s.rows.length_N for s in alike]))
        for subject in alike:
            rows = subject.rows
            clipped_N = rows.length_N.clip(edges[0], edges[-1])
            stacks = [
                (name, np.histogram(clipped_N[rows.verdict_N == code], edges)[0], colour)
                for name, code, colour in kinds
            ]
            stacks = [stack for stack in stacks if stack[1].any()]
            svg = figures.bars(
                edges.tolist(), [(c.tolist(), i) for _, c, i in stacks],
                x_label=f"length of a completion in {unit}",
            )  # fmt: skip
            beyond = int((rows.length_N > edges[-1]).sum())
            note = f"{rows.truncated} of {len(rows.cut_N):,} truncated."
            note += f" {beyond:,} longer than the axis are in the last bar." if beyond else ""
            table = ReportTable(
                ["from", *(name for name, _, _ in stacks)],
                [[f"{edge:.0f}", *(f"{c[b]:,}" for _, c, _ in stacks)]
                 for b, edge in enumerate(edges[:-1].tolist())],
            )  # fmt: skip
            legend = [(name, colour) for name, _, colour in stacks]
            title = _of("Length by verdict", subject, subjects)
            yield Panel(title, "length", svg, legend, table, note, filled=True)


def _length_edges(length_N: np.ndarray) -> np.ndarray:
    """Whole-number edges of about BINS bars up to the 99.5th percentile."""
    top = int(np.quantile(length_N, 0.995)) + 1
    width = max(1, -(-top // BINS))
    return np.arange(0, top + width, width)


def entropies(subjects: Sequence[Subject]) -> Iterator[Panel]:
    """The token entropies of every subject that has some, in one plot."""
    known = [(i, s) for i, s in enumerate(subjects) if s.rows.entropy_count.sum()]
    if not known:
        return
    longest = max(len(s.rows.entropy_count) for _, s in known)
    edges = np.arange(longest) * ENTROPY_BIN
    drawn, shares = [], []
    for index, subject in known:
        count = np.pad(subject.rows.entropy_count, (0, longest - len(subject.rows.entropy_count)))
        shares.append(count / count.sum())
        shown_B = np.where(count > 0, shares[-1], np.nan)  # an empty bin leaves a gap
        middle = (edges + ENTROPY_BIN / 2).tolist()
        drawn.append(Line(middle, shown_B.tolist(), index))
    svg = figures.lines(drawn, x_label="entropy at a token, nats", percent=True, log_y=True)
    table = ReportTable(
        ["from, nats", *(s.name for _, s in known)],
        [[f"{edge:.1f}", *(f"{100 * share[b]:.3g}%" for share in shares)]
         for b, edge in enumerate(edges.tolist())],
    )  # fmt: skip
    note = "Share of all tokens in bins of 0.1 nats, log scale."
    yield Panel("Token entropy", "entropy", svg, [(s.name, i) for i, s in known], table, note)


def of_training(sources: Sequence[ReportSource]) -> Iterator[Panel]:
    """The training curves of all runs, one plot a quantity that any of them logged."""
    runs = [(i, s.name, s.run) for i, s in enumerate(sources) if s.run]
    for title, key, names in training.PANELS:
        curves = [(i, n, c) for i, n, run in runs for c in training.curves(run, key, names)]
        if curves:
            several = len({c.name for _, _, c in curves}) > 1
            yield _of_curves(title, key, curves, runs=len(runs), named=several)
    for title, key, logged, figure in training.BY_SOURCE:
        curves = [
            (i, n, c) for i, n, run in runs for c in training.curves_by_source(run, logged, figure)
        ]
        if curves:
            yield _of_curves(title, key, curves, runs=len(runs), named=True, unit=figure)


def _of_curves(
    title: str,
    key: str,
    curves: list[tuple[int, str, training.Curve]],
    *,
    runs: int,
    named: bool,
    unit: str = "",
) -> Panel:
    """A plot of curves, each with its run's colour, or one of its own where they are `named`.

    `unit` is the figure that all of them show, where their names are not those of figures.
    """
    drawn, legend, rows = [], [], []
    for order, (index, run, curve) in enumerate(curves):
        colour = order % len(figures.SERIES) if named else index
        own = curve.name if unit else curve.name.capitalize().replace("Ucc", "UCC")
        name = " · ".join([run] * (runs > 1) + [own] * named)
        legend += [(name or run, colour)]
        drawn.append(Line(curve.step, curve.value, colour, curve.low, curve.high))
        rows += _curve_rows(name or run, curve, unit)
    svg = figures.lines(
        drawn, x_label="step", percent=key in training.SHARES, zero=key != "kl_start",
        size=figures.NARROW,
    )  # fmt: skip
    banded = any(line.low for line in drawn)
    note = "Band: 95% interval over prompts." if banded else "One value a step; no interval."
    table = ReportTable(["", "step", "value"], rows)
    return Panel(title, key, svg, legend if runs > 1 or named else [], table, note)


def _curve_rows(name: str, curve: training.Curve, figure: str = "") -> list[list[str]]:
    stride = -(-len(curve.step) // _TABLE_ROWS)
    steps = sorted({*range(0, len(curve.step), stride), len(curve.step) - 1})
    shares = ("informative", "clip_fraction", "correct")
    figure = figure or curve.name
    unit = "pass@" if figure in shares else figure

    def shown(at: int) -> str:
        if curve.low is None or curve.high is None:
            value = curve.value[at]
            small = not unit.startswith(tables.PERCENT) and abs(value) < 0.1
            return f"{value:.3g}" if small else tables.number(unit, value)
        return tables.interval(unit, (curve.value[at], curve.low[at], curve.high[at]))

    return [[name, f"{curve.step[at]}", shown(at)] for at in steps]


def signal(sources: Sequence[ReportSource]) -> Iterator[Panel]:
    """The verdicts of each step's groups, one plot a run."""
    runs = [s for s in sources if s.run]
    for source in runs:
        shares = training.signal(source.run) if source.run else None
        if shares is None:
            continue
        stacks = [
            ("all right", shares.right, 2),
            ("both", shares.mixed, 0),
            ("all wrong", shares.wrong, 1),
        ]
        svg = figures.areas(shares.step, [(v, i) for _, v, i in stacks], "step")
        stride = -(-len(shares.step) // _TABLE_ROWS)
        rows = [
            [f"{shares.step[at]}", *(f"{values[at]:.1%}" for _, values, _ in stacks)]
            for at in range(0, len(shares.step), stride)
        ]
        table = ReportTable(["step", *(name for name, _, _ in stacks)], rows)
        title = "Groups by verdict" + (f", {source.name}" if len(runs) > 1 else "")
        legend = [(name, i) for name, _, i in stacks]
        yield Panel(title, "signal", svg, legend, table, "Shares of a step's groups.", filled=True)


def _of(title: str, subject: Subject, subjects: Sequence[Subject]) -> str:
    return f"{title}, {subject.name}" if len(subjects) > 1 else title

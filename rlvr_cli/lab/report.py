"""The shards, tables and pages that the lab's commands write."""

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from rlvr_cli.errors import UsageError
from rlvr_cli.lab import ledger, markdown, panels, picture, sweep
from rlvr_cli.lab.check import Check
from rlvr_cli.runtime.pool import side_by_side
from rlvr_cli.storage import atomic
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.writer import write_all_shards
from rlvr_cli.terminal import console, plural
from rlvr_cli.terminal.braille_plot import wants_colour

_NUMBERS = ("mean", "low", "high", "above", "below")


@dataclass(frozen=True)
class LabResult:
    """Where a command of the lab wrote, and its summary."""

    out: Path
    summary: dict[str, Any]


def make(
    name: str,
    figures: Sequence[panels.Figure],
    *,
    out: Path | None,
    seeds: int,
    seed: int,
    jobs: int | None,
    formats: str | None,
) -> LabResult:
    """Runs what the figures show, stores it as shards, draws it in the terminal and as files."""
    kinds = picture.formats(formats)
    out = out or Path("runs") / "lab" / name
    runs = panels.runs_of(figures)
    with console.Parts(f"lab {name}", len(runs)) as parts:
        shards = sweep.make(
            out / "trajectories",
            f"lab {name}",
            runs,
            seeds=seeds,
            run_seed=seed,
            jobs=jobs,
            on_part=parts,
        )
    trajectories = sweep.read(shards, runs)
    for figure in figures:
        console.say(f"\n{figure.title}")
        for panel in figure.panels:
            lines = panels.curves_of(panel, trajectories)
            shown = panels.in_terminal(panel, lines, colour=wants_colour(sys.stderr))
            console.draw(console.stderr(), shown)
    console.say(f"\nMeans over {seeds} seeds at the end; collapsed: one right action has 95%")
    console.stderr().print(_outcomes(shards.summary["outcomes"]))
    written = picture.write(out, figures, trajectories, kinds)
    reused = f" ({parts.counts['kept']} reused)" if parts.counts["kept"] else ""
    console.say(
        f"lab {name}: {plural.of(len(runs), 'run')}{reused}, "
        f"{plural.of(len(written), 'file')}, {parts.seconds:.1f} s"
    )
    if formats is None and not kinds:
        console.say(f"lab {name}: figures as SVG and PNG need matplotlib: {picture.HINT}")
    return LabResult(out, {"seeds": seeds, "figures": [p.name for p in written], **shards.summary})


def _outcomes(outcomes: Mapping[str, Mapping[str, float | None]]) -> Table:
    """One row a run; `largest` is the likeliest correct action's share of their mass."""
    heads = {"success": "success", "reward": "reward", "entropy": "entropy", "share": "largest",
             "collapsed": "collapsed", "collapse_step": "at step"}  # fmt: skip
    table = Table(box=None, pad_edge=False)
    table.add_column("run", overflow="fold")
    for head in heads.values():
        table.add_column(head, justify="right")
    for name, values in outcomes.items():
        cells = [values.get(key) for key in heads]
        table.add_row(name, *("-" if value is None else f"{value:.4g}" for value in cells))
    return table


def checks(out: Path, groups: Mapping[str, Sequence[Check]]) -> list[dict[str, Any]]:
    """Stores checks as shards in `out/checks`, prints them as a table, and returns them as JSON."""
    rows = [(about, check) for about, group in groups.items() for check in group]
    columns = {
        "about": [about for about, _ in rows],
        "check": [check.statement for _, check in rows],
        "state": [check.state for _, check in rows],
        "n": [check.n for _, check in rows],
    } | {name: [getattr(check, name) for _, check in rows] for name in _NUMBERS}
    params = {"content": hashlib.sha256(repr(columns).encode()).hexdigest()}
    plan = Plan("checks", "lab squeeze", params, {}, 1)
    table = pa.table(columns).cast(plan.schema)
    write_all_shards(out / "checks", plan, lambda _: table)
    console.stderr().print(_checks(groups))
    return [{"about": about, "check": m.statement, "number": m.number, "state": m.state}
            for about, m in rows]  # fmt: skip


def _checks(groups: Mapping[str, Sequence[Check]]) -> Table:
    """A line for each subject, and its checks below it."""
    table = Table(box=None, pad_edge=False)
    for column in ("check", "number", "holds if", ""):
        table.add_column(column)
    for about, group in groups.items():
        table.add_row(Text(about, style="bold"))
        for check in group:
            table.add_row(
                Padding(check.statement, (0, 0, 0, 2)), check.number, check.bounds, check.state
            )
    return table


def claims(
    out: Path, seeds: int, language: Sequence[Path], only: Sequence[str], jobs: int | None
) -> LabResult:
    """Tests every claim, or `only` some, reports the verdicts, and writes the page."""
    papers = ledger.papers()
    keys = {name: [claim.key for claim in group] for name, (_, group) in papers.items()}
    known = [key for group in keys.values() for key in group]
    if unknown := [key for key in only if key not in known]:
        raise UsageError(f"there is no claim `{unknown[0]}`", f"the claims are {', '.join(known)}")
    asked = [name for name, group in keys.items() if not only or set(only) & set(group)]
    work = partial(_tested, seeds=seeds, figures=ledger.figures_of(language), only=only)
    done = {}
    for name, checked in side_by_side(work, asked, jobs or (1 if only else None)):
        _, group = papers[name]
        done[name] = [_result(claim, checked[claim.key]) for claim in group if claim.key in checked]
        if not only:
            console.say(f"{name}: {ledger.tally(done[name])}")
    findings = [finding for name in asked for finding in done[name]]
    if only:
        for finding in findings:
            console.say(f"{finding.claim.key}. {finding.claim.statement}: {finding.verdict}")
        console.stderr().print(_checks({f.claim.key: f.checks for f in findings}))
    words = ["rlvr lab claims", f"--seeds {seeds}", *(f"--language {path}" for path in language)]
    words += [f"--only {','.join(only)}"] * bool(only)
    by_paper = {name: (papers[name][0], done[name]) for name in asked}
    atomic.write_atomic(out, markdown.page(by_paper, seeds=seeds, command=" ".join(words)).encode())
    return LabResult(out, {"verdicts": {f.claim.key: f.verdict for f in findings}})


def _result(claim: ledger.Claim, checked: dict[str, tuple[Check, ...]]) -> ledger.ClaimResult:
    others = {model: checks for model, checks in checked.items() if model != ledger.BUILT_IN}
    return ledger.ClaimResult(claim, checked[ledger.BUILT_IN], others)


def _tested(
    paper: str, seeds: int, figures: ledger.Figures, only: Sequence[str]
) -> tuple[str, dict[str, dict[str, tuple[Check, ...]]]]:
    return paper, ledger.tested(paper, seeds, figures, only)

"""What the lab's commands make and say of a sweep."""

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.table import Table

from rlvr_cli import console, files
from rlvr_cli.errors import UsageError
from rlvr_cli.fill import fill_whole
from rlvr_cli.lab import ledger, markdown, panels, picture, sweep
from rlvr_cli.lab.check import Check
from rlvr_cli.plot import wants_colour
from rlvr_cli.shards import Plan

_NUMBERS = ("mean", "low", "high", "above", "below")


@dataclass(frozen=True)
class Made:
    out: Path
    summary: dict[str, Any]


def make(
    name: str,
    figures: Sequence[panels.Figure],
    out: Path | None,
    seeds: int,
    run_seed: int,
    jobs: int | None,
    formats: str | None,
) -> Made:
    """Runs what the figures show, keeps it as shards, draws it in the terminal and as files."""
    kinds = picture.formats(formats)
    out = out or Path("runs") / "lab" / name
    runs = panels.runs_of(figures)
    files.make_folder(out)
    with console.Parts(f"lab {name}", len(runs)) as parts:
        made = sweep.make(
            out / "trajectories",
            f"lab {name}",
            runs,
            seeds=seeds,
            run_seed=run_seed,
            jobs=jobs,
            on_part=parts,
        )
    trajectories = sweep.read(made, runs)
    for figure in figures:
        console.say(f"\n{figure.title}")
        for panel in figure.panels:
            lines = panels.drawn(panel, trajectories)
            shown = panels.in_terminal(panel, lines, colour=wants_colour(sys.stderr))
            console.stderr().print(shown, markup=False)
    written = picture.write(out, figures, trajectories, kinds)
    kept = f", {parts.counts['kept']} of them were there" if parts.counts["kept"] else ""
    console.say(
        f"lab {name}: {len(runs)} runs of {seeds} seeds{kept}, {len(written)} files of figures in "
        f"`{out}`; means over seeds; {parts.seconds:.1f} s"
    )
    if formats is None and not kinds:
        console.say(f"lab {name}: figures as SVG and PNG need matplotlib: {picture.HINT}")
    return Made(out, {"seeds": seeds, "figures": [p.name for p in written], **made.summary})


def checks(out: Path, found: Mapping[str, Sequence[Check]]) -> list[dict[str, Any]]:
    """Keeps checks as shards in `out/checks`, prints them as a table, and gives them as JSON."""
    rows = [(about, made) for about, group in found.items() for made in group]
    columns = {
        "about": [about for about, _ in rows],
        "check": [made.says for _, made in rows],
        "state": [made.state for _, made in rows],
        "n": [made.n for _, made in rows],
    } | {name: [getattr(made, name) for _, made in rows] for name in _NUMBERS}
    params = {"content": hashlib.sha256(repr(columns).encode()).hexdigest()}
    plan = Plan("checks", "lab squeeze", params, {}, 1)
    table = pa.table(columns).cast(plan.schema)
    fill_whole(out / "checks", plan, lambda _: table)
    shown = Table(box=None, pad_edge=False)
    for column in ("about", "check", "number", "holds if", ""):
        shown.add_column(column)
    for about, made in rows:
        shown.add_row(about, made.says, made.number, made.bounds, made.state)
    console.stderr().print(shown)
    return [{"about": about, "check": m.says, "number": m.number, "state": m.state}
            for about, m in rows]  # fmt: skip


def claims(
    out: Path, seeds: int, language: Path | None, only: Sequence[str], jobs: int | None
) -> Made:
    """Tests every claim, or `only` some, says each verdict, and writes the page."""
    papers = ledger.papers()
    keys = [claim.key for _, group in papers.values() for claim in group]
    if unknown := [key for key in only if key not in keys]:
        raise UsageError(f"there is no claim `{unknown[0]}`", f"the claims are {', '.join(keys)}")
    if language:
        ledger.Lab(1, language)  # what it cannot read it says now
    checked = _checked(list(papers), seeds, language, only, jobs)
    found = {
        name: (title, [ledger.Finding(c, checked[c.key]) for c in group if c.key in checked])
        for name, (title, group) in papers.items()
    }
    found = {name: (title, group) for name, (title, group) in found.items() if group}
    words = ["rlvr lab claims", f"--seeds {seeds}"] + [f"--language {language}"] * bool(language)
    words += [f"--only {','.join(only)}"] * bool(only)
    files.write_atomic(out, markdown.page(found, seeds=seeds, command=" ".join(words)).encode())
    verdicts = {f.claim.key: f.verdict for _, group in found.values() for f in group}
    return Made(out, {"verdicts": verdicts})


def _checked(
    papers: Sequence[str], seeds: int, language: Path | None, only: Sequence[str], jobs: int | None
) -> dict[str, tuple[Check, ...]]:
    """The checks of every claim by its key; papers side by side in `jobs` processes."""
    checked: dict[str, tuple[Check, ...]] = {}
    jobs = min(jobs or os.cpu_count() or 1, len(papers))
    if jobs == 1 or only:
        for paper in papers:
            checked |= ledger.tested(paper, seeds, language, only)
        return checked
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        started = {pool.submit(ledger.tested, p, seeds, language, only): p for p in papers}
        for done in as_completed(started):
            checked |= done.result()
            console.say(f"lab claims: {started[done]} is done")
    return checked

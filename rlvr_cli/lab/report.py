"""What the lab's commands make and say of a sweep."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvr_cli import console, files
from rlvr_cli.lab import panels, picture, sweep
from rlvr_cli.plot import wants_colour


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

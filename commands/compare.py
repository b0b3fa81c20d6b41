"""Paired differences of runs over the same prompts, what they solve, and where Pass@k crosses.

Takes run directories of train (their last evaluations), scores directories, or files of other
tools, two or more; each is compared with the first. Prompts are gained where the first has no
correct completion and the other one has. `--plot` draws the Pass@k curves, and Pass@1 against
Pass@K.
"""

from pathlib import Path
from typing import Annotated

import typer

from rlvr_cli import console, options


def command(
    runs: Annotated[list[Path], typer.Argument(help="runs, scores directories or files")],
    plot: Annotated[bool, typer.Option("--plot", help="draw the curves and the frontier")] = False,
    equality: options.Equality = None,
    json: options.Json = False,
) -> None:
    from rlvr_cli import reporting
    from rlvr_cli.stages import comparison, voting

    sides, made = comparison.contrasts(runs, equality=equality)
    points = comparison.frontier(sides)
    if json:
        first, *others = [one.as_json() for one in made]
        majorities = [side.majority for side in sides]
        summary = {**first, "others": others, "frontier": points, "majorities": majorities}
        return console.result(runs[-1], summary, as_json=True)
    out = console.stdout()
    for one in made:
        title = f"{one.metrics.title}, mean [95% interval]: `{one.first}`, then `{one.second}`"
        out.print(title, markup=False, soft_wrap=True)
        rows = dict(one.metrics.rows)
        out.print(reporting.comparison_table(["first", "second"], rows, "second - first"))
        out.print(reporting.flips_table(one.buckets))
        for line in reporting.solved(one.gained, one.lost, one.crossings, one.ahead):
            out.print(line, markup=False, soft_wrap=True)
    for side in sides:
        if side.majority:
            line = f"`{side.path}`, {voting.described(side.majority)}"
            out.print(line, markup=False, soft_wrap=True)
    out.print(reporting.frontier_table(points))
    if plot:
        for drawn in reporting.contrast_plots(comparison.curves(sides), points, out.file):
            print(drawn, file=out.file)

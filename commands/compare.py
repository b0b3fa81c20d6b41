"""Paired differences of runs over the same prompts, what they solve, and where Pass@k crosses.

Takes two or more run directories of train (their last evaluations), scores directories, or files
of other tools, and compares each with the first. A difference is better or worse where its 95%
interval leaves 0 out; of more than two runs, where Holm's correction for their number does. A
prompt is gained where the first has no correct completion and the other has one. `--plot` draws
the Pass@k curves, and Pass@1 against Pass@K.

    rlvr train --algo grpo --out runs/grpo
    rlvr compare runs/grpo runs/quatro --plot
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from rlvr_cli import config
from rlvr_cli.cli import options
from rlvr_cli.terminal import console


@options.takes(columns=config.Columns)
def command(
    columns: dict[str, Any],
    runs: Annotated[list[Path], typer.Argument(help="runs, scores directories or files")],
    plot: Annotated[bool, typer.Option("--plot", help="draw the curves and the frontier")] = False,
    equality: options.Equality = None,
    json: options.Json = False,
) -> None:
    from rlvr_cli.evaluation import compare, voting
    from rlvr_cli.terminal import tables

    reading = config.make(config.Columns, columns)
    sides, contrasts = compare.contrasts(options.once(runs), equality=equality, columns=reading)
    points = compare.frontier(sides)
    if json:
        first, *others = [one.as_json() for one in contrasts]
        summary = {**first, "others": others, "frontier": points}
        summary["majorities"] = [side.majority for side in sides]
        summary["read"] = [side.tally.read for side in sides]
        return console.result(runs[-1], summary, as_json=True)
    out = console.stdout()
    for one in contrasts:
        title = f"{one.metrics.title}, mean [95% interval]: `{one.first}`, then `{one.second}`"
        out.print(title, markup=False, soft_wrap=True)
        rows = dict(one.metrics.rows)
        out.print(tables.comparison_table(["first", "second"], rows, "second - first"))
        for line in tables.verdicts(one.metrics.verdict, one.metrics.comparisons):
            out.print(line, markup=False, soft_wrap=True)
        out.print(tables.flips_table(one.buckets))
        for line in tables.solved(one.gained, one.lost, one.crossings, one.ahead):
            out.print(line, markup=False, soft_wrap=True)
    for side in sides:
        for line in console.reading(side.tally.read):
            out.print(f"`{side.path}`, {line}", markup=False, soft_wrap=True)
        if side.majority:
            text = f"`{side.path}`, {voting.described(side.majority)}"
            out.print(text, markup=False, soft_wrap=True)
    out.print(tables.frontier_table(points))
    if plot:
        for drawn in tables.contrast_plots(compare.curves(sides), points, out.file):
            print(drawn, file=out.file)

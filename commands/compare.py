"""Paired differences of runs over the same prompts, what they solve, and where Pass@k crosses.

Takes two or more run directories of train (their last evaluations), scores directories, or files
of other tools, and compares each with the first over the prompts that all have: one id, and the
same source, text and gold where both know them. A prompt is gained where the first has no correct
completion and the other has one. `--plot` draws the Pass@k curves, and Pass@1 against Pass@K.

    rlvr train --algo grpo --out runs/grpo
    rlvr compare runs/grpo runs/quatro --plot
"""

from pathlib import Path
from typing import Annotated

import typer

from rlvr_cli.cli import options
from rlvr_cli.terminal import console


def command(
    runs: Annotated[list[Path], typer.Argument(help="runs, scores directories or files")],
    plot: Annotated[bool, typer.Option("--plot", help="draw the curves and the frontier")] = False,
    k: options.Ks = None,
    min_n: options.MinN = 1,
    pair_by: options.PairBy = None,
    equality: options.Equality = None,
    json: options.Json = False,
) -> None:
    from rlvr_cli.evaluation import compare, pairing
    from rlvr_cli.terminal import tables

    sides, contrasts, remarks = compare.contrasts(
        runs, equality=equality, ks=options.ks(k), min_n=min_n, pair_by=pairing.fields(pair_by)
    )
    points = compare.frontier(sides)
    if json:
        first, *others = [one.as_json() for one in contrasts]
        majorities = [side.majority for side in sides]
        summary = {**first, "others": others, "frontier": points, "majorities": majorities}
        summary["remarks"] = remarks
        return console.result(runs[-1], summary, as_json=True)
    out = console.stdout()
    for one in contrasts:
        for line in (one.headline, *one.unlike):
            out.print(line, markup=False, soft_wrap=True)
        rows = dict(one.metrics.rows)
        out.print(tables.comparison_table(["first", "second"], rows, "second - first"))
        out.print(tables.flips_table(one.buckets))
        for line in tables.solved(one.gained, one.lost, one.crossings, one.ahead):
            out.print(line, markup=False, soft_wrap=True)
    votes = [f"`{side.path}`, {side.remark}" for side in sides if side.remark]
    for line in (*remarks, *votes):
        out.print(line, markup=False, soft_wrap=True)
    out.print(tables.frontier_table(points))
    if plot:
        for drawn in tables.contrast_plots(compare.curves(sides), points, out.file):
            print(drawn, file=out.file)

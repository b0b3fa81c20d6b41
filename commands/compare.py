"""Compares runs on the same prompts, with paired intervals.

Takes two or more run directories of train (their last evaluations), scores directories, or files
of other tools, and compares each with the first on the prompts that all of them share: the same
id, and the same source, text and gold where both know them. A difference counts as better or worse
if its 95% interval excludes 0, and with more than two runs if it passes Holm's correction. A prompt
is gained if the first run has no correct completion and the other has one. `--plot` draws the
Pass@k curves, and Pass@1 against Pass@K.

    rlvr train --algo grpo --out runs/grpo
    rlvr compare runs/grpo runs/quatro --plot
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from rlvr_cli import config
from rlvr_cli.cli import lists, options, sources
from rlvr_cli.terminal import console, results


@options.takes(columns=config.Columns)
def command(
    columns: dict[str, Any],
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
        sources.once(runs), equality=equality, columns=config.make(config.Columns, columns),
        ks=lists.ks(k), min_n=min_n, pair_by=pairing.fields(pair_by),
    )  # fmt: skip
    if json:
        return console.result(runs[-1], compare.summary(sides, contrasts, remarks), as_json=True)
    out = console.stdout()
    for one in contrasts:
        for line in filter(None, (one.headline, *one.unlike, one.shared)):
            out.print(line, soft_wrap=True)
        out.print(tables.comparison_table(["first", "second"], one.metrics.rows, "second - first"))
        for line in (*tables.verdicts(one.metrics.verdict, one.metrics.comparisons), *one.equal):
            out.print(line, soft_wrap=True)
        out.print(tables.flips_table(one.buckets))
        for line in tables.solved(one.gained, one.lost, one.crossings, one.ahead):
            out.print(line, soft_wrap=True)
    notes = {str(s.path): [*results.reading(s.tally.read), s.remark] for s in sides}
    for line in (*remarks, *tables.notes(notes)):
        out.print(line, soft_wrap=True)
    points = compare.frontier(sides)
    out.print(tables.frontier_table(points))
    for drawn in tables.contrast_plots(compare.curves(sides), points, out.file) if plot else ():
        console.draw(out, drawn)

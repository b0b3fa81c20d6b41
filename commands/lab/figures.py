"""Draws every panel of the papers' toy figures.

Runs `lab sharpening`, `lab two-stage` and `lab squeeze` with their defaults, and draws the results
in the terminal and as files.

    rlvr lab figures --seeds 100
"""

from rlvr_cli.cli import options
from rlvr_cli.terminal import console


def command(
    seeds: options.Seeds = 100,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    out: options.Out = None,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    from rlvr_cli.lab import recovery, report, sharpening, two_stage

    figures = [
        *sharpening.published(sharpening.SharpeningSweep()),
        *two_stage.published(two_stage.TwoStageSweep()),
        *recovery.figures(),
    ]
    result = report.make(
        "figures", figures, out=out, seeds=seeds, seed=seed, jobs=jobs, formats=format
    )
    console.result(result.out, result.summary, as_json=json)

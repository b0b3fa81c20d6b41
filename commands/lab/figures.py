"""Every panel of the papers' toy figures: sharpening, two-stage and squeeze in one go."""

from pathlib import Path

from rlvr_cli import console, options


def command(
    seeds: options.Seeds = 100,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    out: options.Out = None,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    from rlvr_cli.lab import report, sharpening, squeeze, two_stage

    out = out or Path("runs/lab")
    figures = [
        *sharpening.published(sharpening.Sweep()),
        *two_stage.published(two_stage.Sweep()),
        *squeeze.figures(),
    ]
    made = report.make("figures", figures, out, seeds, seed, jobs, format)
    console.result(made.out, made.summary, as_json=json)

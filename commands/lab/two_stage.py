"""Three and four actions: exploitation, then exploration.

Draws Figures 1, 5, 6 and 7 of the two-stage paper (arXiv:2510.04028, sec. 3.2 and C.4), and the
same with negative gradients only. If you give a value for any of the swept quantities, it runs
every combination instead. Separate several values by commas; repeat `--algo`, `--rewards` and
`--initial`. A learning rate applies at temperature 1.

    rlvr lab two-stage --rewards 0.5,1,0 --initial 0.6,0.05,0.35 --temperature 1,5
"""

from typing import Annotated, Any

import typer

from rlvr_cli.cli import lists, options
from rlvr_cli.terminal import console

_Rows = list[str] | None


def command(
    algo: options.Algos = None,
    rewards: Annotated[_Rows, typer.Option(help="rewards, as in 0.5,1,0")] = None,
    initial: Annotated[_Rows, typer.Option(help="probabilities, as in 0.5,0.05,0.45")] = None,
    group_size: options.GroupSizes = None,
    temperature: Annotated[str | None, typer.Option(help="temperatures, as in 1,5")] = None,
    optimizer: options.Optimizers = None,
    learning_rate: options.LearningRates = None,
    steps: options.Steps = 1500,
    seeds: options.Seeds = 200,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    out: options.Out = None,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    from rlvr_cli.lab import report, two_stage

    swept = {
        "algos": algo,
        "rewards": [lists.numbers("--rewards", row) for row in rewards or ()],
        "initial": [lists.numbers("--initial", row) for row in initial or ()],
        "group_sizes": lists.numbers("--group-size", group_size, int),
        "temperatures": lists.numbers("--temperature", temperature),
        "optimizers": lists.words(optimizer),
        "learning_rates": lists.numbers("--learning-rate", learning_rate),
    }
    chosen: dict[str, Any] = {name: values for name, values in swept.items() if values}
    sweep = two_stage.TwoStageSweep(**chosen, steps=steps)
    figures = two_stage.swept(sweep) if chosen else two_stage.published(sweep)
    result = report.make(
        "two-stage", figures, out=out, seeds=seeds, seed=seed, jobs=jobs, formats=format
    )
    console.result(result.out, result.summary, as_json=json)

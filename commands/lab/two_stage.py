"""Three and four actions: exploitation, then exploration, by reward, start and temperature.

Makes Figures 1, 5, 6 and 7 of the two-stage paper (arXiv:2510.04028, sec. 3.2 and C.4), and the
same with negative gradients only. With a value for any of the swept quantities it makes every
combination instead; several values are comma-separated, `--algo`, `--rewards` and `--initial`
are repeated.
"""

from typing import Annotated, Any

import typer

from rlvr_cli import console, options

_Rows = list[str] | None


def command(
    algo: Annotated[_Rows, typer.Option("--algo", help=options.ALGO_HELP)] = None,
    rewards: Annotated[_Rows, typer.Option(help="one an action, as in 0.5,1,0")] = None,
    initial: Annotated[_Rows, typer.Option(help="probabilities, as in 0.5,0.05,0.45")] = None,
    group_size: Annotated[str | None, typer.Option(help="samples a step, as in 2,10")] = None,
    temperature: Annotated[str | None, typer.Option(help="of the policy, as in 1,5")] = None,
    optimizer: Annotated[str | None, typer.Option(help="of sgd,momentum,adam,adamw")] = None,
    learning_rate: Annotated[str | None, typer.Option(help="at temperature 1, as in 0.1")] = None,
    steps: Annotated[int, typer.Option(min=1, help="updates of a policy")] = 1500,
    seeds: options.Seeds = 200,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    out: options.Out = None,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    from rlvr_cli.lab import report, two_stage

    given = {
        "algos": algo,
        "rewards": [options.numbers("--rewards", row) for row in rewards or ()],
        "initial": [options.numbers("--initial", row) for row in initial or ()],
        "group_sizes": options.numbers("--group-size", group_size, int),
        "temperatures": options.numbers("--temperature", temperature),
        "optimizers": options.words(optimizer),
        "learning_rates": options.numbers("--learning-rate", learning_rate),
    }
    chosen: dict[str, Any] = {name: values for name, values in given.items() if values}
    sweep = two_stage.Sweep(**chosen, steps=steps)
    figures = two_stage.swept(sweep) if chosen else two_stage.published(sweep)
    made = report.make("two-stage", figures, out, seeds, seed, jobs, format)
    console.result(made.out, made.summary, as_json=json)

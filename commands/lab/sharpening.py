"""Cat, Dog, Persian, Siamese: how policies collapse, by estimator, group size and optimizer.

Makes Figures 1 to 5 of When Sharpening Becomes Collapse (sec. 2.4, G and H). With a value for any
of the swept quantities it makes every combination instead; several values are comma-separated,
`--algo` is repeated.
"""

from typing import Annotated, Any

import typer

from rlvr_cli import console, options

_Many = Annotated[list[str] | None, typer.Option("--algo", help=options.ALGO_HELP)]


def command(
    algo: _Many = None,
    group_size: Annotated[str | None, typer.Option(help="samples a step, as in 4,16")] = None,
    optimizer: Annotated[str | None, typer.Option(help="of sgd,momentum,adam,adamw")] = None,
    learning_rate: Annotated[str | None, typer.Option(help="as in 0.1,1")] = None,
    mu: Annotated[str | None, typer.Option(help="weight of DLC's memory, as in 0,0.5")] = None,
    similarity: Annotated[str, typer.Option(help="of the held-out class")] = "high,mid,low",
    init: Annotated[str, typer.Option(help="start of weights: uniform or embeddings")] = "uniform",
    steps: Annotated[int, typer.Option(min=1, help="updates of a policy")] = 500,
    seeds: options.Seeds = 200,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    out: options.Out = None,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    from rlvr_cli.lab import report, sharpening

    given = {
        "algos": algo,
        "group_sizes": options.numbers("--group-size", group_size, int),
        "optimizers": options.words(optimizer),
        "learning_rates": options.numbers("--learning-rate", learning_rate),
        "memories": options.numbers("--mu", mu),
    }
    chosen: dict[str, Any] = {name: values for name, values in given.items() if values}
    sweep = sharpening.Sweep(
        **chosen, similarities=options.words(similarity), init=init, steps=steps
    )
    figures = sharpening.swept(sweep) if chosen else sharpening.published(sweep)
    made = report.make("sharpening", figures, out, seeds, seed, jobs, format)
    console.result(made.out, made.summary, as_json=json)

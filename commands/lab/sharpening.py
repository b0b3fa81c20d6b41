"""Cat, Dog, Persian, Siamese: how policies collapse.

Draws Figures 1 to 5 of When Sharpening Becomes Collapse (sec. 2.4, G and H). If you give a value
for any of the swept quantities, it runs every combination instead. Separate several values by
commas; repeat `--algo`.

    rlvr lab sharpening --algo grpo --algo grpo+iac --learning-rate 0.1,1 --mu 0,0.5
"""

from typing import Annotated, Any

import typer

from rlvr_cli.cli import lists, options
from rlvr_cli.terminal import console

_SIAMESE = "of the held-out class, as in high,mid,low; a sweep leaves it out by default"


def command(
    algo: options.Algos = None,
    group_size: options.GroupSizes = None,
    optimizer: options.Optimizers = None,
    learning_rate: options.LearningRates = None,
    mu: Annotated[str | None, typer.Option(help="weight of DLC's memory, as in 0,0.5")] = None,
    similarity: Annotated[str | None, typer.Option(help=_SIAMESE)] = None,
    init: Annotated[str, typer.Option(help="initial weights: uniform, embeddings")] = "uniform",
    steps: options.Steps = 500,
    seeds: options.Seeds = 200,
    seed: options.Seed = 0,
    jobs: options.Jobs = None,
    out: options.Out = None,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    from rlvr_cli.lab import report, sharpening

    swept = {
        "algos": algo,
        "group_sizes": lists.numbers("--group-size", group_size, int),
        "optimizers": lists.words(optimizer),
        "learning_rates": lists.numbers("--learning-rate", learning_rate),
        "memories": lists.numbers("--mu", mu),
    }
    chosen: dict[str, Any] = {name: values for name, values in swept.items() if values}
    seen: dict[str, Any] = {"similarities": lists.words(similarity)} if similarity else {}
    sweep = sharpening.SharpeningSweep(**chosen, **seen, init=init, steps=steps)
    figures = (
        sharpening.swept(sweep, held_out=bool(seen)) if chosen else sharpening.published(sweep)
    )
    result = report.make(
        "sharpening", figures, out=out, seeds=seeds, seed=seed, jobs=jobs, formats=format
    )
    console.result(result.out, result.summary, as_json=json)

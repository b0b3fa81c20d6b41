"""Turns the rewards of complete groups into advantages.

The output directory records the algorithm, and train-step uses that one. A completion without a
reward is left out of every statistic and is not trained on. A group whose rewards are all equal
gets an advantage of exactly 0. Several directories keep separate groups unless --merge is given.

    rlvr advantage demo/scores --algo grpo+iac
"""

from typing import Annotated

import typer

from rlvr_cli.cli import options, resumed, sources
from rlvr_cli.terminal import console, plural


def command(
    scores: options.Directories = None,
    algo: options.StageAlgo = None,
    out: options.Out = None,
    rollouts: options.MovedRollouts = None,
    logprobs: options.Logprobs = None,
    allow_singletons: Annotated[
        bool | None, typer.Option("--allow-singletons", help="give groups of one advantage 0")
    ] = None,
    drop_uninformative: Annotated[
        bool | None, typer.Option("--drop-uninformative", help="leave out groups of equal rewards")
    ] = None,
    merge: Annotated[
        bool | None, typer.Option("--merge", help="join a prompt's groups of all inputs")
    ] = None,
    shard: options.Shard = "0/1",
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    from rlvr_cli.algorithms import objective
    from rlvr_cli.stages import advantage
    from rlvr_cli.storage.share import Share

    objective.canonical("grpo" if algo is None else algo)  # a misspelt one is the first error
    source, out = sources.directories(scores, "scores", out, "advantages")
    where = sources.moved_to(rollouts, "rollouts", source)
    begun = resumed.Begun(out)
    stored = begun.values(algo=None).get("algo")
    spec = objective.canonical((stored or "grpo") if algo is None else algo, stored)
    flags = begun.values(
        allow_singletons=allow_singletons, drop_uninformative=drop_uninformative, merge=merge
    ) | {"logprobs": logprobs}
    if dry_run:
        resumed.dry_run(advantage.run, source, out, algo=spec, rollouts=where, **flags)
        return console.say(f"advantage: {plural.of(source.rows, 'row')} by {spec}, into `{out}`")
    with console.Parts("advantage", len(source)) as parts:
        shards = advantage.run(source, out, algo=spec, rollouts=where, share=Share.parse(shard),
                               on_part=parts, **flags)  # fmt: skip
    text = (
        "{informative} of {groups} groups carry signal ({informative_share:.0%}), "
        "{missing:reward} missing, {floored:group} at the floor, {kept:row} kept"
    )
    console.conclude(parts, out, shards, text, as_json=json)

"""Updates a policy on the advantages of a step.

It finds the rollouts and the policy in the lineage of the advantages. The new policy is stored in
the `_checkpoint` folder of the new directory, with all that exact resume needs; `--model` takes
either path. The advantages of several directories make one update. With `--follow RUN` it is the
trainer of a run that other processes sample and score.

    rlvr train-step demo/advantages --learning-rate 2e-4
"""

from typing import Annotated, Any

import typer

from rlvr_cli import config
from rlvr_cli.cli import launch, options, resumed, sources
from rlvr_cli.loop import follow_options
from rlvr_cli.terminal import console


@options.takes(given=config.UpdateOptions)
@follow_options.trains
def command(
    given: dict[str, Any],
    advantages: options.Directories = None,
    out: options.Out = None,
    model: options.Model = None,
    algo: Annotated[str | None, typer.Option(help="must match the advantages")] = None,
    seed: options.StageSeed = None,
    rollouts: options.MovedRollouts = None,
    logprobs: options.Logprobs = None,
    off_policy: Annotated[
        bool, typer.Option("--off-policy", help="train a policy other than the one sampled from")
    ] = False,
    nproc: options.Nproc = 1,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    from rlvr_cli.models import which
    from rlvr_cli.stages import common, dropped, train_step

    source, out = sources.directories(advantages, "advantages", out, "update")
    where = sources.moved_to(rollouts, "rollouts", source)
    begun = resumed.Begun(out)
    chosen = begun.options(config.UpdateOptions, given)
    policy, said = which.sampled(source.parent("rollouts", where), model)
    how = begun.values(seed=seed) | {"algo": algo, "rollouts": where, "off_policy": off_policy}
    how["logprobs"] = common.logprobs_of(source, logprobs)
    if dry_run:
        begun.dry_run(train_step.run, source, out, policy, chosen, **how)
        return console.say(f"train-step: `{policy.name}` by {source.params['algo']}, into `{out}`")
    launch.spawn(nproc, advantages, source.path)
    console.remark("train-step", *said, *train_step.remarks(source, policy, chosen, where))
    with console.Parts("train-step", 1) as parts:
        shards = train_step.run(source, out, policy, chosen, on_part=parts, **how)
    said = [*train_step.drifted(shards.summary), *dropped.warnings(shards)]
    console.conclude(parts, out, shards, train_step.SUMMARY, as_json=json, remarks=said)

"""Samples completions of prompts from a policy.

What is sampled depends on the prompt, the sample's index, the seed and the step. With `--max-draws`
above 1, groups of equal rewards are replaced (`OUT/_draws`). `--follow RUN` samples a run's steps.

    rlvr rollout demo/prompts -n 8 --max-new-tokens 16
"""

from typing import Any

from rlvr_cli import config
from rlvr_cli.cli import launch, options, resumed, sources
from rlvr_cli.loop import follow_options
from rlvr_cli.terminal import console


@options.takes(given=config.RolloutOptions)
@follow_options.samples
def command(
    given: dict[str, Any],
    prompts: options.Source = None,
    out: options.Out = None,
    model: options.Model = None,
    seed: options.StageSeed = None,
    step: options.StageStep = None,
    prompts_per_step: options.PromptsPerStep = None,
    limit: options.Limit = None,
    shard: options.Shard = "0/1",
    nproc: options.Nproc = 1,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    from rlvr_cli.models import memory_model, which
    from rlvr_cli.stages import common, prompt_rewards, rollout, rollout_options, rollout_remarks
    from rlvr_cli.stages.selection import Selection
    from rlvr_cli.storage.shards import Shards

    source = Shards.open(sources.source(prompts), "prompts")
    out = out or source.path.parent / "rollouts"
    begun = resumed.Begun(out, but=("memory_model", "mu", "dlc_min_prob"))
    chosen = begun.options(config.RolloutOptions, given)
    selection = Selection(**begun.values(
        seed=seed, step=step, prompts_per_step=prompts_per_step, limit=limit))  # fmt: skip
    rollout_options.check(chosen, selection, share := launch.share(shard))
    policy, said = which.to_sample(source, model, out, chosen.engine)
    count = len(selection.of(source))
    chosen, also = rollout_options.settle(chosen, policy, count, share.count, out=out, of=[source])
    if dry_run:
        if not chosen.memory_model:
            begun.dry_run(rollout.run, source, out, policy, chosen, selection, share=share)
        text = rollout_remarks.dry_run_text(chosen, policy, source, selection, out)
        return console.say(f"rollout: {text}")
    launch.spawn(nproc, prompts, source.path)
    asked = rollout_remarks.prompt_remarks(chosen, policy, source, selection, out=out)
    console.remark("rollout", *said, *also, *asked, *prompt_rewards.remarks(source))
    memory = memory_model.chosen(chosen, policy, out.parent, selection.seed)
    with console.Parts("rollout", -(-count // chosen.prompts_per_part)) as parts:
        shards = common.together(rollout.run(source, out, policy, chosen, selection, memory,
                                           share=share, on_part=parts), out)  # fmt: skip
    console.conclude(parts, out, shards, as_json=json, **rollout_remarks.conclusion(chosen, shards))

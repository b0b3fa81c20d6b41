"""Samples completions of prompts from a policy.

A row's sample depends on its prompt, its index, the seed and the step alone, not on its batch or on
interruptions. With `--max-draws` above 1, groups whose rewards are all equal are left out and other
prompts are drawn in their place; all draws and their scores stay in `OUT/_draws`.

    rlvr rollout demo/prompts -n 8 --max-new-tokens 16
"""

from typing import Annotated, Any

import typer

from rlvr_cli import config
from rlvr_cli.cli import options
from rlvr_cli.terminal import console


@options.takes(given=config.RolloutOptions)
def command(
    given: dict[str, Any],
    prompts: options.Source = None,
    out: options.Out = None,
    model: options.Model = None,
    seed: options.StageSeed = None,
    step: Annotated[int | None, typer.Option(min=0, help="of the loop, part of seeds")] = None,
    prompts_per_step: options.PromptsPerStep = None,
    limit: options.Limit = None,
    shard: options.Shard = "0/1",
    nproc: options.Nproc = 1,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    from rlvr_cli.models import memory_model, policy as policies
    from rlvr_cli.stages import common, rollout
    from rlvr_cli.storage.shards import Shards

    source = Shards.open(options.source(prompts), "prompts")
    out = out or source.path.parent / "rollouts"
    begun = options.Begun(out, but=("memory_model", "mu", "dlc_min_prob"))
    chosen = begun.options(config.RolloutOptions, given)
    selection = rollout.Selection(**begun.values(
        seed=seed, step=step, prompts_per_step=prompts_per_step, limit=limit))  # fmt: skip
    share = options.share(shard)
    rollout.check(chosen, selection, share)
    policy = policies.resolve(model or policies.BUILTIN)
    count = len(selection.of(source.table()["prompt_id"].to_pylist()))
    draws = f", in {chosen.max_draws} draws at most," if chosen.max_draws > 1 else ""
    if dry_run:
        each = f"{chosen.num_generations} completions of `{policy.name}`{draws}"
        return console.say(f"rollout: {count} prompts x {each} would go to `{out}`")
    options.spawn(nproc, prompts, source.path)
    console.remark("rollout", *rollout.remarks(chosen, model, source))
    memory = memory_model.chosen(chosen, policy, out.parent, selection.seed)
    with console.Parts("rollout", -(-count // chosen.prompts_per_part)) as parts:
        shards = common.together(rollout.run(source, out, policy, chosen, selection, memory,
                                           share=share, on_part=parts), out)  # fmt: skip
    text = "{completions} completions, {tokens} tokens, {cut} cut at the limit, {skipped} skipped"
    text += ", {prompts} of {wanted} groups, from {drawn} in {draws} draws" if draws else ""
    console.conclude(parts, out, shards, text, as_json=json, rate=None if draws else "tokens")

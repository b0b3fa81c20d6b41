"""Trains DLC's memory model on a step's completions.

The memory model comes from the rollouts, which were sampled from the policy minus this model. The
trained one is stored in the `_checkpoint` folder of the new directory, with all that exact resume
needs; `rlvr rollout --memory-model` takes either path.

    rlvr rollout demo/prompts --memory-model auto --out dlc/rollouts -n 8 --max-new-tokens 16
    rlvr memory-step dlc/rollouts
"""

from typing import Annotated, Any

import typer

from rlvr_cli import config
from rlvr_cli.cli import options, resumed, sources
from rlvr_cli.terminal import console, plural


@options.takes(given=config.MemoryOptions)
def command(
    given: dict[str, Any],
    rollouts: options.Source = None,
    out: options.Out = None,
    memory_model: Annotated[str | None, typer.Option(help="the memory model to train")] = None,
    micro_batch_tokens: options.StageTokens = None,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    from rlvr_cli.models import memory_model as memory_models
    from rlvr_cli.stages import memory_step
    from rlvr_cli.storage.shards import Shards

    source = Shards.open(sources.source(rollouts), "rollouts")
    out = out or source.path.parent / "memory"
    begun = resumed.Begun(out)
    chosen = begun.options(config.MemoryOptions, given)
    tokens = begun.values(micro_batch_tokens=micro_batch_tokens)
    memory = memory_models.of(source, memory_model)
    if dry_run:
        begun.dry_run(memory_step.run, source, out, memory, chosen, **tokens)
        return console.say(
            f"memory-step: `{memory.name}` on {plural.of(source.rows, 'row')}, into `{out}`"
        )
    if memory_model is None:
        why = f"`{source.path}` was sampled with it"
        console.say(f"memory-step: no --memory-model given, using `{memory.name}`, because {why}")
    with console.Parts("memory-step", 1) as parts:
        shards = memory_step.run(source, out, memory, chosen, **tokens, on_part=parts)
    text = "{updates:update} on {tokens:token}, {loss:.4g} nats per token before the first"
    console.conclude(parts, out, shards, text, as_json=json)

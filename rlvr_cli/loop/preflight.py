"""What a run refuses before its first step."""

import dataclasses
from pathlib import Path

import pyarrow as pa

from rlvr_cli import registry
from rlvr_cli.config import RunConfig
from rlvr_cli.errors import UsageError
from rlvr_cli.memory_estimate import phases
from rlvr_cli.memory_estimate.model_size import shape_of
from rlvr_cli.models.policy import Policy
from rlvr_cli.runtime import device
from rlvr_cli.stages import prompt_rewards, rollout
from rlvr_cli.storage.shards import Shards
from rlvr_cli.verification.parsing import thoughts
from rlvr_cli.verification.scoring import rewards


def check_prompts(config: RunConfig) -> None:
    """Refuses prompts that are not there or cannot be verified, and to evaluate without any."""
    options = config.train
    thoughts.read(options.answer_from)
    if options.verifier:
        rewards.build(options.verifier, named_by="the configuration of the run")
    for given in (options.prompts, options.heldout):
        if given:
            prompt_rewards.check(
                Shards.open(Path(given), "prompts"),
                verifier=options.verifier or None,
                allow_code=options.allow_code_execution,
            )
    if options.prompts and options.eval_every and not options.heldout:
        raise UsageError(
            "there are prompts to train on and none to evaluate on",
            "name some with `--heldout DIR`, or leave evaluation out with `--eval-every 0`",
        )


def check_processes(config: RunConfig, size: int, *, decoupled: bool) -> None:
    """Refuses what several processes cannot divide among themselves."""
    sampling = config.rollout
    if size > 1 and sampling.max_draws > 1:
        raise UsageError(
            f"--max-draws is {sampling.max_draws}, and {size} processes were started",
            "use one process: what is drawn depends on the rewards of all groups",
        )
    if size > 1 and decoupled:
        raise UsageError(
            f"DLC trains its memory model in one process, and {size} were started",
            "leave --nproc out",
        )
    engine, trainer = sampling.engine.partition(":")[0], config.train_step.trainer
    divides = registry.parse("training", trainer)[1].get("zero") == 3
    if divides and (engine == "graph" or (size > 1 and engine == "transformers")):
        raise UsageError(
            f"--trainer is {trainer}, and --engine {engine} samples from the trainer's own "
            "weights, which zero=3 divides among the processes and gathers for the trainer alone",
            "sample with --engine vllm, or train with deepspeed:zero=2",
        )
    prompts = config.train.prompts_per_step
    if size > -(-prompts // sampling.prompts_per_part):
        raise UsageError(
            f"a step of {prompts} prompts in parts of {sampling.prompts_per_part} is too few "
            f"parts for {size} processes",
            f"use --prompts-per-part {max(1, prompts // size)}",
        )


def require_memory(
    config: RunConfig,
    policy: Policy,
    messages: pa.ChunkedArray,
    *,
    model: Policy | None,
    reference: bool,
    size: int,
) -> None:
    """Refuses a run that a GPU has no memory for, before any weight is loaded.

    `messages` are those of the prompts to train on, `model` is the memory model of DLC; with a
    `reference` the start policy is in memory too.
    """
    accelerator = device.here()
    if model:
        reserved_bytes = phases.memory_model_bytes(shape_of(model), accelerator, trained=True)
        accelerator = dataclasses.replace(accelerator, free=accelerator.free - reserved_bytes)
    needs = phases.run(
        shape_of(policy, config.train_step),
        config,
        accelerator,
        prompt=rollout.longest_prompt(policy, messages),
        reference=reference,
        size=size,
    )
    for need in needs:
        phases.require(policy, need, accelerator)

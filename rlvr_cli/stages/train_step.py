"""The stage that updates a policy on advantages."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from rlvr_cli import config, registry
from rlvr_cli.algorithms import lr_schedule, objective
from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.config import UpdateOptions
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.memory_estimate import phases
from rlvr_cli.memory_estimate.model_size import shape_of
from rlvr_cli.models import lora, policy as policies
from rlvr_cli.models.policy import Loaded, Policy
from rlvr_cli.protocols import Row, TrainingEngine
from rlvr_cli.runtime import device, distributed
from rlvr_cli.stages import batch as batches, steps, updates
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import Shards, begun_with
from rlvr_cli.storage.writer import OnPart


def run(
    advantages: Shards,
    out: Path,
    policy: Policy,
    options: UpdateOptions,
    *,
    algo: str | None = None,
    seed: int = 0,
    rollouts: Path | None = None,
    logprobs: Shards | None = None,
    off_policy: bool = False,
    allow_empty: bool = False,
    save: bool = True,
    engine: Callable[[], TrainingEngine] | None = None,
    on_part: OnPart = lambda index, state: None,
) -> Shards:
    """A steps directory, with the updated policy in its `_checkpoint` folder.

    One row an optimizer step. The objective is the one that made the advantages. The checkpoint
    is written before the manifest, so a complete directory always has a whole one; without `save`
    it has none, and the policy is in the engine's memory alone. Advantages that keep no row are
    refused, or, with `allow_empty`, give no update and the policy as it was. Every process of the
    world must call this; the leading one writes.
    """
    spec = _same_algo(advantages, algo)
    by = f"`{advantages.path}`"
    goal = objective.build(objective.canonical(spec, spec, named_by=by), named_by=by)
    stored = begun_with(out).get("trainer")
    options = replace(options, trainer=registry.canonical("training", options.trainer, stored))
    check(options, goal, policy)
    sampled = advantages.parent("rollouts", rollouts)
    _check_policy(sampled, policy, off_policy)
    _check_decoupled(sampled, goal, spec)
    parents = {"advantages": advantages} | ({"logprobs": logprobs} if logprobs else {})
    plan = Plan(
        "steps",
        "train-step",
        _params(options, spec, seed, policy),
        parents,
        parts=1,
        extra=updates.share_names(goal),
        paths={"policy": policy.named_from(out)},
        earlier=config.earlier(UpdateOptions),
        specs={
            "algo": lambda spec: objective.canonical(spec, spec),
            "trainer": lambda spec: registry.canonical("training", spec, spec),
        },
        behaviour=objective.versions(spec),
    )

    def update() -> tuple[TrainingEngine, pa.Table]:
        batch = batches.read(advantages, sampled, logprobs, goal, options)
        if engine is None:
            require_memory(policy, options, batch.rows)
        made = engine() if engine else trainer(policies.load(policy), options, seed)
        if not batch.rows and not allow_empty:
            raise DataError(
                f"`{advantages.path}` keeps no rows to train on",
                "look at its status and reward columns in the scores",
            )
        return made, updates.run(made, batch, goal, options, sampled.params, seed)

    if not distributed.current().is_main_process:
        return _follow(update, out, save)

    def told() -> tuple[TrainingEngine, pa.Table]:
        distributed.broadcast(True)
        return update()

    made = steps.write(out, plan, told, save=save, identity="update", on_part=on_part)
    distributed.broadcast(False)
    return made


def _params(options: UpdateOptions, spec: str, seed: int, policy: Policy) -> dict[str, Any]:
    return {
        **vars(options),
        "algo": objective.canonical(spec, spec),
        "seed": seed,
        "policy": policy.digest,
        "optimizer": policy.trainer_digest,
    }


def _follow(update: Callable[[], tuple[TrainingEngine, Any]], out: Path, save: bool) -> Shards:
    """Does this process' share of the update, if the leading one finds that there is one."""
    if distributed.broadcast(None):
        made, _ = update()
        if save:
            made.save(out)
        distributed.broadcast(None)
    return Shards.open(out)


def require_memory(policy: Policy, options: UpdateOptions, rows: Sequence[Row]) -> None:
    """Refuses an update of the rows that a GPU has no memory for, before anything is loaded."""
    if rows:
        lengths = (max(row.size for row in rows), max(len(row.token_ids) for row in rows))
        shape, place = shape_of(policy, options), device.here()
        batch = phases.UpdateSize(len(rows), *lengths)
        need = phases.training(shape, options, place, batch, size=distributed.current().size)
        phases.require(policy, need, place)


def trainer(loaded: Loaded, options: UpdateOptions, seed: int) -> TrainingEngine:
    """The policy with its optimizer, in the engine that the options name."""
    return registry.build("training", options.trainer)(loaded, options, seed)


def check(options: UpdateOptions, goal: Objective, policy: Policy) -> None:
    """Refuses options that do not go with one another, the objective or the policy."""
    lr_schedule.check(options)
    registry.build("training", options.trainer)
    if distributed.current().size > 1 and options.trainer.partition(":")[0] == "local":
        raise UsageError(
            f"{distributed.current().size} processes were started, and --trainer local is for one",
            "use --trainer deepspeed, or start one process",
        )
    lora.check(policy.path, options)
    if options.old_logprobs == "rollout" and "behaviour_logp" in goal.needs:
        raise UsageError(
            "--old-logprobs is rollout, so the ratio is taken against the behaviour policy; this "
            "objective would correct for that policy once more",
            "use --old-logprobs recompute",
        )


def _same_algo(advantages: Shards, algo: str | None) -> str:
    made_by = advantages.params["algo"]
    meant = objective.canonical(made_by, made_by, named_by=f"`{advantages.path}`")
    if algo is not None and objective.canonical(algo, made_by) != meant:
        raise UsageError(
            f"`{advantages.path}` was made by {made_by}, --algo is {objective.canonical(algo)}",
            "leave --algo out, or make the advantages again with it",
        )
    return made_by


def _check_policy(rollouts: Shards, policy: Policy, off_policy: bool) -> None:
    sampled = rollouts.params.get("policy")
    if sampled not in (None, policy.digest) and not off_policy:
        raise UsageError(
            f"`{rollouts.path}` was sampled from another policy than `{policy.name}`",
            "name that policy with --model, or allow it with --off-policy",
        )
    check_sampling(rollouts.params, f"`{rollouts.path}` was sampled")


def _check_decoupled(rollouts: Shards, goal: Objective, spec: str) -> None:
    if rollouts.params.get("mu") and not goal.decoupled:
        raise UsageError(
            f"`{rollouts.path}` was sampled from the policy less {rollouts.params['mu']} times a "
            f"memory, and {spec} is for samples of the policy itself",
            "make the advantages with `+dlc` behind the algorithm",
        )


def check_sampling(params: dict[str, Any], what: str) -> None:
    """Refuses samples that are not from the policy's own distribution."""
    if params.get("temperature") == 0 or params.get("top_p", 1) < 1 or params.get("top_k", 0):
        raise UsageError(
            f"{what} at temperature {params.get('temperature')}, top_p {params.get('top_p', 1)}, "
            f"top_k {params.get('top_k', 0)}, not from the policy itself",
            "sample at a temperature above 0, with top_p 1 and top_k 0",
        )

"""The stage that updates a policy on advantages."""

import contextlib
import importlib.util
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from rlvr_cli import config, registry
from rlvr_cli.algorithms import lr_schedule, objective as objectives
from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import ratio
from rlvr_cli.config import UpdateOptions
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.memory_estimate import phases
from rlvr_cli.memory_estimate.model_size import shape_of
from rlvr_cli.models import lora, policy as policies, quantized
from rlvr_cli.models.policy import Loaded, Policy
from rlvr_cli.protocols import Row, TrainingEngine
from rlvr_cli.runtime import device, distributed
from rlvr_cli.stages import (
    advantage_checks,
    batch as batches,
    common,
    origins,
    room,
    row_images,
    steps,
    updates,
)
from rlvr_cli.storage.atomic import Syncing
from rlvr_cli.storage.begun import begun_extra, begun_with
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import Shards
from rlvr_cli.storage.writer import OnPart

SUMMARY = (
    "{updates:update} on {tokens:token}; before the first update: loss {loss:.4g}, "
    "importance ratios {first_ratio_min:.7f} to {first_ratio_max:.7f}; before the last update: "
    "kl {kl:.3g}; mean gradient norm {grad_norm:.3g}"
)
_OF_MANY = "deepspeed:zero=2"
_OF_IMAGES = ("train_vision",)
_SPECS: dict[str, Callable[[str], str]] = {  # the params that are specs, in their canonical form
    "algo": lambda spec: objectives.canonical(spec, spec),
    "trainer": lambda spec: registry.canonical("training", spec, spec),
}


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
    syncing: Syncing | None = None,
) -> Shards:
    """A steps directory, with the updated policy in its `_checkpoint` folder.

    Advantages of several inputs give one update: a group is a prompt of one of them.

    One row per optimizer step. The objective is that of the advantages. The checkpoint is written
    before the manifest, so a complete directory always has one; without `save` it has none, and
    only the engine's memory has the policy. Advantages that keep no row are refused, or, with
    `allow_empty`, leave the policy unchanged. Every process must call this; the main process
    writes.
    """
    spec = _same_algo(advantages, algo)
    objective = _objective(spec, advantages, out)
    stored = begun_with(out).get("trainer")
    options = replace(options, trainer=registry.canonical("training", options.trainer, stored))
    check(options, objective, policy)
    sampled = advantages.parent("rollouts", rollouts)
    sampling = {
        "max_new_tokens": advantage_checks.require_longest(objective, sampled),
        "temperature": common.temperature(sampled),
    }
    origins.check(sampled, policy, off_policy=off_policy)
    if engine is None:
        origins.require_tokenizer(sampled, policy)
    _check_samples(sampled, objective, spec)
    if logprobs:
        batches.require_of(policy, advantages, logprobs, sampled, objective)
    parents = {"advantages": advantages} | ({"logprobs": logprobs} if logprobs else {})
    params = _params(options, spec, seed, policy)
    plan = _plan(params, parents, objective, paths={"policy": policy.named_from(out)})

    def update() -> tuple[TrainingEngine, pa.Table]:
        images = row_images.of_rollouts(sampled, policy)
        batch = batches.read(advantages, sampled, logprobs, objective, options, images)
        if engine is None:
            if save and distributed.current().is_main_process:
                room.require(policy, out, options)
            require_memory(policy, options, batch.rows)
        own = engine() if engine else trainer(policies.load(policy), options, seed)
        if not batch.rows and not allow_empty:
            raise _no_rows(advantages, objective)
        return own, updates.run(own, batch, objective, options, sampling, seed)

    if not distributed.current().is_main_process:
        return _follow(update, out, save)
    return _lead(update, out, plan, save=save, on_part=on_part, syncing=syncing)


def _plan(
    params: dict[str, Any],
    parents: dict[str, Shards],
    objective: Objective,
    *,
    paths: dict[str, str],
) -> Plan:
    return Plan(
        "steps",
        "train-step",
        params,
        parents,
        parts=1,
        extra=updates.share_names(objective),
        paths=paths,
        earlier=config.earlier(UpdateOptions),
        specs=_SPECS,
        optional=_OF_IMAGES,
        behaviour=objectives.versions(params["algo"]),
    )


def _no_rows(advantages: Shards, objective: Objective) -> DataError:
    at = "its status and reward columns in the scores"
    if "truncated" in objective.needs:
        at = f"finish_reason in the rollouts, as mask-truncated does, and at {at}"
    return DataError(f"`{advantages.path}` keeps no rows to train on", f"look at {at}")


def remarks(
    advantages: Shards, policy: Policy, options: UpdateOptions, rollouts: Path | None
) -> Iterator[str]:
    """What is not corrected for of completions that another policy sampled."""
    objective = objectives.build(_same_algo(advantages, None))
    sampled = advantages.parent("rollouts", rollouts)
    yield from origins.remarks(sampled, policy, objective, options)


def drifted(summary: dict[str, Any]) -> list[str]:
    """A remark on updates whose log ratios were clamped to stay finite."""
    if not summary.get("clamp_count"):
        return []
    return [
        f"the log importance ratio of {summary['clamp_count']} of {summary['tokens']} tokens is "
        f"beyond {ratio.LIMIT:.0f} nats, where it is clamped: a gain by the ratio has no "
        "gradient there, except with aspo, ce-gppo and `quatro:clamp=false`"
    ]


def _params(options: UpdateOptions, spec: str, seed: int, policy: Policy) -> dict[str, Any]:
    applied = {k: v for k, v in vars(options).items() if k not in _OF_IMAGES or v}
    return {
        **applied,
        "algo": objectives.canonical(spec, spec),
        "seed": seed,
        "policy": policy.digest,
        "optimizer": policy.trainer_digest,
    }


def _lead(
    update: Callable[[], tuple[TrainingEngine, pa.Table]],
    out: Path,
    plan: Plan,
    *,
    save: bool,
    on_part: OnPart,
    syncing: Syncing | None,
) -> Shards:
    """Writes the directory, and tells the other processes whether there is an update."""

    def shared_update() -> tuple[TrainingEngine, pa.Table]:
        distributed.broadcast(True)
        return update()

    written = steps.write(
        out, plan, shared_update, save=save, identity="update", on_part=on_part, syncing=syncing
    )
    distributed.broadcast(False)
    return written


def _follow(update: Callable[[], tuple[TrainingEngine, Any]], out: Path, save: bool) -> Shards:
    """Does this process' share of the update, if the main process says that there is one."""
    if distributed.broadcast(None):
        own, _ = update()
        if save:
            own.save(out)
        distributed.broadcast(None)
    return Shards.open(out)


def require_memory(policy: Policy, options: UpdateOptions, rows: Sequence[Row]) -> None:
    """Refuses an update of the rows that a GPU has no memory for, before anything is loaded."""
    if rows:
        lengths = (max(row.size for row in rows), max(len(row.token_ids) for row in rows))
        images = any(row.images for row in rows)
        shape, accelerator = shape_of(policy, options, images=images), device.here()
        batch = phases.UpdateSize(len(rows), *lengths)
        estimate = phases.training(
            shape, options, accelerator, batch, size=distributed.current().size
        )
        phases.require(policy, estimate, accelerator)


def trainer(loaded: Loaded, options: UpdateOptions, seed: int) -> TrainingEngine:
    """The policy with its optimizer, in the engine that the options name."""
    engine: TrainingEngine = registry.build("training", options.trainer)(loaded, options, seed)
    return engine


def settle(options: UpdateOptions) -> tuple[UpdateOptions, list[str]]:
    """The options for these processes, with a remark if they change: local trains in one."""
    size = distributed.current().size
    is_local = options.trainer.partition(":")[0] == "local"
    if size == 1 or not is_local or importlib.util.find_spec("deepspeed") is None:
        return options, []
    why = f"the trainer is {_OF_MANY}, as local is for one process and {size} were started"
    return replace(options, trainer=_OF_MANY), [why]


def check(options: UpdateOptions, objective: Objective, policy: Policy) -> None:
    """Refuses options that do not go with one another, the objective or the policy."""
    lr_schedule.check(options)
    registry.build("training", options.trainer)
    if distributed.current().size > 1 and options.trainer.partition(":")[0] == "local":
        raise UsageError(
            f"{distributed.current().size} processes were started, and --trainer local is for one",
            "use --trainer deepspeed, or start one process",
        )
    quantized.check_plain(policy)
    lora.check(policy.path, options)
    if options.train_vision:
        _check_vision(options, policy)
    if options.old_logprobs == "rollout" and "behaviour_logp" in objective.needs:
        raise UsageError(
            "--old-logprobs is rollout, so the ratio is taken against the behaviour policy; this "
            "objective would correct for that policy once more",
            "use --old-logprobs recompute",
        )


def _check_vision(options: UpdateOptions, policy: Policy) -> None:
    """Refuses --train-vision where there is nothing to train by it, or no exact way to do so."""
    if not policies.reads_images(policy):
        raise UsageError(
            f"--train-vision is given, and `{policy.name}` reads only text",
            "leave --train-vision out",
        )
    name, chosen = registry.parse("training", options.trainer)
    if name == "deepspeed" and (chosen["zero"] == 3 or chosen["offload"] != "none"):
        raise UsageError(
            f"--train-vision is given, and --trainer {options.trainer} keeps gradients of earlier "
            "updates where rows have no images",
            "use --trainer deepspeed:zero=2, or leave --train-vision out",
        )


def _remake_command(advantages: Shards, algos: Iterable[str]) -> str:
    """The command that makes all advantages by one algorithm, the one of most modifiers."""
    algo = shlex.quote(max(algos, key=lambda spec: spec.count("+")))
    scores = "SCORES"
    with contextlib.suppress(DataError, LookupError):  # they may be gone
        scores = " ".join(one.parent("scores").as_argument for one in advantages.inputs)
    return f"rlvr advantage {scores} --algo {algo} --out mixed/advantages"


def _same_algo(advantages: Shards, algo: str | None) -> str:
    """The algorithm of the advantages; an error if it is not that of all, or not `algo`."""
    meant_by: dict[str, Shards] = {}
    for one in advantages.inputs:
        spec = str(one.params["algo"])
        meant_by.setdefault(objectives.canonical(spec, spec, named_by=f"`{one.path}`"), one)
    (meant, first), *others = meant_by.items()
    if others:
        raise UsageError(
            f"`{first.path}` was made by {meant}, `{others[0][1].path}` by {others[0][0]}",
            f"make them with one algorithm: `{_remake_command(advantages, meant_by)}`",
        )
    stored = str(first.params["algo"])
    if algo is not None and objectives.canonical(algo, stored) != meant:
        raise UsageError(
            f"`{advantages.path}` was made by {stored}, --algo is {objectives.canonical(algo)}",
            "leave --algo out, or make the advantages again with it",
        )
    return stored


def _objective(spec: str, advantages: Shards, out: Path) -> Objective:
    """The objective of the advantages, with the shares that a directory was begun with."""
    by = f"`{advantages.path}`"
    objective = objectives.build(objectives.canonical(spec, spec, named_by=by), named_by=by)
    return updates.with_begun_shares(objective, begun_extra(out))


def _check_samples(rollouts: Shards, objective: Objective, spec: str) -> None:
    """Refuses samples of another distribution than the one that the objective is for."""
    for one in rollouts.inputs:
        check_sampling(one.params, f"`{one.path}` was sampled")
        if one.params.get("mu") and not objective.decoupled:
            raise UsageError(
                f"`{one.path}` was sampled from the policy less {one.params['mu']} times a memory, "
                f"and {spec} is for samples of the policy itself",
                "make the advantages with `+dlc` after the algorithm",
            )


def check_sampling(params: dict[str, Any], what: str) -> None:
    """Refuses samples that are not from the policy's own distribution."""
    if params.get("temperature") == 0 or params.get("top_p", 1) < 1 or params.get("top_k", 0):
        raise UsageError(
            f"{what} at temperature {params.get('temperature')}, top_p {params.get('top_p', 1)}, "
            f"top_k {params.get('top_k', 0)}, not from the policy itself",
            "sample at a temperature above 0, with top_p 1 and top_k 0",
        )

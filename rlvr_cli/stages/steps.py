"""The directory of an optimizer's steps: one row an update, and the policy after them.

The checkpoint is written before the manifest, so a complete directory has a complete one. Without
`save` it has none, and only the engine's memory has the policy.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.models import policy as policies
from rlvr_cli.models.checkpoints import CHECKPOINT
from rlvr_cli.models.policy import Policy
from rlvr_cli.protocols import TrainingEngine
from rlvr_cli.storage import atomic, writer
from rlvr_cli.storage.atomic import Syncing
from rlvr_cli.storage.begun import begun_fingerprint
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import Shards
from rlvr_cli.storage.writer import OnPart, write_all_shards


def write(
    out: Path,
    plan: Plan,
    update: Callable[[], tuple[TrainingEngine, pa.Table]],
    *,
    save: bool,
    identity: str,
    on_part: OnPart,
    syncing: Syncing | None = None,
) -> Shards:
    """The directory of a plan, whose `update` gives its rows and the engine that computed them.

    What is not saved is identified by the plan and the word `identity`. With `syncing` the
    checkpoint is brought to disk by and by.
    """

    def make(_: int) -> pa.Table:
        engine, table = update()
        if save:
            save_checkpoint(engine, out, sync=syncing is None)
        return table

    plan = writer.resume(out, plan)  # an update that is repeated keeps its identity
    without = None if save else _identity(identity, plan.fingerprint)
    written = write_all_shards(
        out,
        plan,
        make,
        summarise=lambda steps: summarise(steps, without),
        on_part=on_part,
        is_intact=lambda steps: policies.checkpoint_state(steps) == "whole" or not save,
    )
    if save and syncing:  # begun last: the manifest would wait for it
        syncing.begin(out / CHECKPOINT)
    return written


def _identity(word: str, fingerprint: str) -> str:
    return hashlib.sha256(f"{word} {fingerprint}".encode()).hexdigest()


def unsaved(out: Path, identity: str) -> str | None:
    """What identifies the policy of a directory that was begun, if it has no checkpoint."""
    fingerprint = begun_fingerprint(out)
    return fingerprint and _identity(identity, fingerprint)


def checkpoint_after(update: Shards, before: Policy, *, save: bool) -> Policy:
    """The policy after the steps: their checkpoint, or one in memory that came from another."""
    if save:
        return policies.resolve(str(update.path))
    return Policy(before.path, str(update.path), update.summary["policy"])


def save_checkpoint(engine: TrainingEngine, out: Path, *, sync: bool = True) -> None:
    """Writes the checkpoint completely or not at all."""
    with atomic.write_folder(out / CHECKPOINT, replace=True, sync=sync) as folder:
        engine.save(folder)


def summarise(steps: Shards, identity: str | None = None) -> dict[str, Any]:
    """The updates in short, and what identifies the checkpoint; None where no update says it.

    A policy that was not saved has an `identity` instead.
    """
    table = steps.table()
    rows = table.to_pylist() or [dict.fromkeys(table.column_names)]
    first, last = rows[0], rows[-1]

    def mean(name: str) -> float | None:
        mean_of: float | None = pc.mean(table[name]).as_py()
        return mean_of

    saved = None if identity else policies.resolve(str(steps.path))
    return {
        "updates": table.num_rows,
        "loss": first["loss"],
        "grad_norm": mean("grad_norm"),
        "learning_rate": last["learning_rate"],
        "entropy": first["entropy"],
        "kl": last["kl"],
        "clip_fraction": mean("clip_fraction"),
        "clamp_count": pc.sum(table["clamp_count"]).as_py() or 0,
        "first_ratio_min": first["ratio_min"],
        "first_ratio_max": first["ratio_max"],
        "tokens": pc.sum(table["tokens"]).as_py() or 0,
        "sampler_gap": first["sampler_gap"],
        **{name: mean(name) for name in steps.manifest["extra"]},
        "policy": saved.digest if saved else identity,
        "optimizer": saved.trainer_digest if saved else None,
    }

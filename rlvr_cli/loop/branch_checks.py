"""Reasons to refuse a branch of a run, checked before any of it is made."""

import json
import os
import shlex
from pathlib import Path

from rlvr_cli.algorithms import objective as objectives
from rlvr_cli.config import RunConfig
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.loop.run_directory import RunDirectory
from rlvr_cli.models import policy as policies
from rlvr_cli.models.checkpoints import CHECKPOINT
from rlvr_cli.stages import golds, prompt_rewards, task_prompts
from rlvr_cli.stages.score import Verification
from rlvr_cli.stages.selection import Selection
from rlvr_cli.storage import run_folders
from rlvr_cli.storage.shards import MANIFEST, Shards
from rlvr_cli.terminal import plural

_MOST_TRIED = 4  # checkpoints nearby that are read to see whether they are intact


def require_step(run: RunDirectory, at: int, config: RunConfig) -> None:
    """An error unless the run has the checkpoint of a step as it was written; 0 is its start."""
    if at == 0 or run.has_checkpoint(at):
        return
    complete = run_folders.complete(run.path, "steps", "update")
    update = run.of("steps", at) / "update"
    if at not in complete:
        why = f"`{run.path}` has not finished step {at}, its last is {max(complete, default=0)}"
    elif policies.checkpoint_state(Shards.open(update)) == "damaged":
        why = f"the checkpoint of step {at} of `{run.path}` is not as it was written"
    elif Shards.open(update).summary.get("optimizer") is None:
        why = f"step {at} of `{run.path}` wrote no checkpoint (--save-every "
        why += f"{config.train.save_every})"
    else:
        why = f"the checkpoint of step {at} of `{run.path}` was removed (--keep {config.train.keep}"
        only_weights = policies.checkpoint_state(Shards.open(update)) == "weights alone"
        why += "; the weights that are left lack the optimizer's state)" if only_weights else ")"
    stored = [step for step, here in complete.items() if (here / "update" / CHECKPOINT).exists()]
    near = sorted(stored, key=lambda step: (abs(step - at), step))[:_MOST_TRIED]
    nearest = next((step for step in near if run.has_checkpoint(step)), 0)
    others = f"; there are those of {', '.join(map(str, stored))}" if stored else ""
    raise DataError(f"{why}{others}", f"the nearest is `--at {nearest}`")


def require_outside(run: Path, out: Path) -> None:
    """An error where the branches would be in the run, and be removed and pushed with it."""
    inside = run.resolve()
    if inside in (out.resolve(), *out.resolve().parents):
        sibling = run.absolute().with_name(f"{run.absolute().name}-branches")
        raise UsageError(
            f"--out is `{out}`: the branches would be in `{run}`, and be removed with it",
            f"choose a folder next to it, as in `--out {shlex.quote(os.path.relpath(sibling))}`",
        )


def require_more_steps(run: Path, at: int, steps: int) -> None:
    """An error where a branch would have nothing left to train."""
    if steps <= at:
        raise UsageError(
            f"a branch of step {at} of `{run}` has {plural.of(steps, 'step')} in all: "
            "none would be left",
            f"say how many it is to have, as in `--steps {at + 20}`",
        )


def require_same_sampling(run: Path, algo: str, is_decoupled: bool) -> None:
    """An error for an objective whose steps are sampled otherwise than those of the run."""
    if objectives.build(algo).decoupled == is_decoupled:
        return
    how = "less its memory model" if is_decoupled else "itself"
    raise UsageError(
        f"`{run}` samples from the policy {how}, and `--algo {algo}` does not: a branch shares the "
        "completions",
        f"{'add `+dlc` to' if is_decoupled else 'leave `+dlc` out of'} --algo, or start another "
        "run with `rlvr train`",
    )


def require_golds(
    prompts: list[tuple[Shards, Selection]], verification: Verification, limit: float
) -> None:
    """An error where a verifier does not fit the prompts that its branches score first.

    It cannot read more than a share `limit` of their golds, or a prompt lacks what it takes.
    """
    assert verification.scorer, "golds are read by its processes"
    for given, selection in prompts:
        prompt_rewards.check(
            given, verifier=verification.verifier, allow_code=verification.allow_code
        )
        rows = given.table().take(selection.of(given)).to_pylist()
        asked = [row | {"extra": json.loads(row["extra"] or "{}")} for row in rows]
        wrong = golds.unreadable(asked, verification.scorer, verification.verifier)
        if len(wrong) <= limit * len(rows):
            continue
        name, reason = next(iter(wrong.items()))
        raise DataError(
            f"`{verification.verifier or 'the verifier of the prompts'}` cannot read {len(wrong)} "
            f"of {len(rows)} golds of `{given.path}`, as that of `{name}`: {reason}",
            "name a --verifier that reads them, or make the prompts again with other golds",
        )


def prompts_of(run: Path, at: int, config: RunConfig) -> list[tuple[Shards, Selection]]:
    """The prompts of the step after `at`, and the held-out ones if the run evaluates."""
    train = config.train
    prompts = []
    selection = Selection(train.seed, at + 1, train.prompts_per_step)
    for split, given, chosen in (
        ("train", train.prompts, selection),
        ("heldout", train.heldout, Selection()),
    ):
        folder = task_prompts.directory(given) or run / "prompts" / split
        if given or (folder / MANIFEST).exists():
            prompts.append((Shards.open(folder, "prompts"), chosen))
    return prompts

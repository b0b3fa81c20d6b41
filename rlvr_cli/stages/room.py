"""The room on disk that checkpoints and published weights take, known before a run begins."""

import itertools
import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from rlvr_cli.config import RunConfig, RunOptions, UpdateOptions
from rlvr_cli.errors import Advice
from rlvr_cli.memory_estimate.model_size import shape_of
from rlvr_cli.models import lora
from rlvr_cli.models.checkpoints import CHECKPOINT, WEIGHTS
from rlvr_cli.models.policy import Policy
from rlvr_cli.runtime import device
from rlvr_cli.storage import disk, run_folders

_WEIGHT = 4  # bytes, in float32
_TRAINED = 12  # with AdamW's moments


def of_checkpoint(policy: Policy, options: UpdateOptions = UpdateOptions()) -> int:
    """The bytes of a policy's checkpoint once it was updated: weights, moments and small files."""
    shape = shape_of(policy, options)
    frozen = 0 if options.lora_rank else shape.parameters - shape.trained
    return _TRAINED * shape.trained + _WEIGHT * frozen + _small_files(policy)


def _of_weights(policy: Policy, options: UpdateOptions) -> int:
    """The bytes of only the weights, which `--keep-weights` leaves and samplers read."""
    shape = shape_of(policy, options)
    if options.lora_rank:
        return _WEIGHT * shape.trained + _small_files(policy)
    return device.here().bytes_of("auto") * shape.parameters + _small_files(policy)


def _small_files(policy: Policy) -> int:
    files = [file for file in policy.path.iterdir() if file.suffix in (".json", ".model", ".txt")]
    return sum(file.stat().st_size for file in files if file.name != lora.BASE)


def require(policy: Policy, out: Path, options: UpdateOptions = UpdateOptions()) -> None:
    """Refuses an update whose checkpoint has no room."""
    disk.require(out, of_checkpoint(policy, options), "a checkpoint")


@dataclass(frozen=True)
class Room:
    """The bytes of a run's checkpoint and of its weights, and how many of each are kept.

    With evaluations the best one stays in addition to the newest `keep`. Where other processes
    sample, the weights of `published` policies are kept for them, including those being written.
    """

    checkpoint: int
    weights: int
    keep: int
    keep_weights: int
    evaluates: bool
    published: int = 0

    @property
    def complete(self) -> int:
        """How many complete checkpoints exist while one is written, including that one."""
        return self.keep + self.evaluates + 1

    def peak(self, written: int) -> int:
        """The most bytes in use at a time by the time that so many were written."""
        complete = min(written, self.complete)
        only_weights = min(written - complete, self.keep_weights + 1 if self.keep_weights else 0)
        return complete * self.checkpoint + (only_weights + self.published) * self.weights

    def check(self, path: Path, train: RunOptions, last: int, *, adapters: bool) -> None:
        """Refuses a run that has no room for its next checkpoint; warns of too little for all.

        `last` is the step to resume after. A warning suffices, as space may be freed meanwhile.
        """
        left = saves(train, range(last + 1, train.steps + 1), adapters=adapters)
        free = disk.free(path)
        if not left or free is None:
            return
        complete, published, used = _usage(path)
        stay = min(complete, self.keep) * self.checkpoint
        stay += min(published, self.published - 1) * self.weights
        with_weights = " with the weights for samplers" if self.published else ""
        size = self.checkpoint + (self.weights if self.published else 0)
        disk.require(path, size, f"a checkpoint{with_weights}", spare=max(0, used - stay))
        peak = self.peak(complete + left)
        if peak > free + used:
            of_samplers = f" and {disk.gb(self.weights)} for samplers" if self.published else ""
            warnings.warn(
                f"the checkpoints of this run{with_weights} will take up to {disk.gb(peak)}, each "
                f"{disk.gb(self.checkpoint)}{of_samplers}, and `{path}` has "
                f"{disk.gb(free + used)} for them: "
                f"{self._remedy(complete + left, free + used)}",
                Advice,
                stacklevel=2,
            )

    def _remedy(self, written: int, room: int) -> str:
        fewer = (replace(self, keep=keep) for keep in range(self.keep - 1, 0, -1))
        fits = next((one.keep for one in fewer if one.peak(written) <= room), None)
        change = f"keep fewer with `--keep {fits}`" if fits else "take a larger disk with --out"
        return f"free some in time, or {change}"

    def require(self, path: Path, step: int) -> None:
        """Refuses the update of a step whose checkpoint has no room, before it is computed."""
        room = disk.free(path)
        lacks = disk.gb(self.checkpoint - (room or 0))
        frees = self.keep > 1 and _usage(path)[0] > 1
        fewer = ", or keep fewer with `--keep 1`" if frees else ""
        hint = (
            f"free {lacks} there{fewer}, and run the same command again: it continues from the "
            "rollouts of this step"
        )
        disk.require(path, self.checkpoint, f"the checkpoint of step {step}", hint)


def of_run(
    config: RunConfig, policy: Policy, memory: Policy | None = None, *, publishes: bool = False
) -> Room:
    """What the checkpoints of a run take; with DLC those of its memory model too.

    One that `publishes` its policies has samplers read them (loop/published.py): the newest and
    `ahead` before it, while the next is written. The last step of a run publishes none.
    """
    train, options = config.train, config.train_step
    published = max(0, min(train.ahead + 2, train.steps - 1)) if publishes else 0
    return Room(
        of_checkpoint(policy, options) + (of_checkpoint(memory) if memory else 0),
        _of_weights(policy, options),
        train.keep,
        train.keep_weights,
        train.eval_every > 0,
        published,
    )


def saves(train: RunOptions, steps: Iterable[int], *, adapters: bool) -> int:
    """How many of the steps end with a checkpoint."""
    every = train.eval_every
    return sum(
        adapters
        or step % train.save_every == 0
        or step == train.steps
        or (every > 0 and step % every == 0)
        for step in steps
    )


def _usage(path: Path) -> tuple[int, int, int]:
    """How many complete checkpoints and published policies a run has, and their bytes.

    The bytes include weights that were kept of checkpoints.
    """
    steps = run_folders.steps(path, "steps").values()
    names = (
        f"update/{CHECKPOINT}",
        f"policy/{WEIGHTS}",
        f"memory/{CHECKPOINT}",
        f"update/{WEIGHTS}",
    )
    complete, published, *others = ([s / n for s in steps if (s / n).exists()] for n in names)
    sizes = (
        os.path.getsize(Path(root) / name)
        for folder in itertools.chain(complete, published, *others)
        for root, _, names in os.walk(folder)
        for name in names
    )
    return len(complete), len(published), sum(sizes)

"""Which checkpoints of a run stay complete, and of which only the weights stay.

The newest `keep` stay complete, and the best one; if an evaluation was lost, every one that may be
the best. Of the `keep_weights` before them only the weights stay, in the format of `rlvr convert`;
adapters stay as they are, without the optimizer's state.
"""

import shutil
from pathlib import Path

from rlvr_cli.loop.run_directory import RunDirectory
from rlvr_cli.models import lora
from rlvr_cli.models.checkpoints import CHECKPOINT, OPTIMIZER_BEFORE, WEIGHTS
from rlvr_cli.runtime import device
from rlvr_cli.stages import convert
from rlvr_cli.storage import atomic, run_folders

_DOOMED = "_pruned"
_UNFINISHED = f"_tmp-{WEIGHTS}"


def prune(run: RunDirectory, keep: int, keep_weights: int) -> None:
    """Removes what need not be kept.

    A kill at any moment leaves a complete checkpoint or its weights: these are complete before the
    checkpoint is removed.
    """
    staying = {run.of("steps", step) for step in run.may_be_best()}
    steps = list(run_folders.steps(run.path).values())
    for kind, weights in (("update", keep_weights), ("memory", 0)):
        updates = [step / kind for step in steps]
        for update in updates:
            atomic.remove(update / _UNFINISHED)
        held = [update for update in updates if _holds(update)]
        for age, update in enumerate(reversed(held)):  # in checkpoints, the newest first
            if age < keep or update.parent in staying:
                continue
            if age < keep + weights:
                _keep_weights(update)
            else:
                _doom(update / WEIGHTS)
            _doom(update / CHECKPOINT)
        for doomed in (path for update in updates for path in update.glob(f"{_DOOMED}*")):
            atomic.remove(doomed)


def _holds(update: Path) -> bool:
    return (update / CHECKPOINT).exists() or (update / WEIGHTS).exists()


def _doom(folder: Path) -> None:
    """Takes a folder away at once; to remove its files takes a while."""
    doomed = folder.with_name(f"{_DOOMED}{folder.name}")
    if folder.exists():
        atomic.remove(doomed)  # of a process that was killed meanwhile
        folder.rename(doomed)


def _keep_weights(update: Path) -> None:
    """Writes the weights of a checkpoint, in the precision that samples, if they are not there."""
    source, out = update / CHECKPOINT, update / WEIGHTS
    if out.exists():
        return
    if lora.base_of(source) is None:
        is_half = device.here().bytes_of("auto") == 2
        convert.write(str(source), out, "bfloat16" if is_half else "float32")
        return
    with atomic.write_folder(out) as folder:
        for file in source.iterdir():
            if file.is_file() and file.name != OPTIMIZER_BEFORE:
                shutil.copyfile(file, folder / file.name)

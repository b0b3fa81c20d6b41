"""Where a run and its steps hold their policies, and a policy the state of its optimizer.

    update/_checkpoint                             a model or adapters, as any loader reads them
    update/_checkpoint/optimizer/adamw.safetensors     AdamW's moments, where no loader looks;
                                  those of a large model as adamw-00001-of-00007.safetensors
    update/_weights                                kept longer: only the weights

Version 0.1.0 has the moments next to the weights, in `trainer.safetensors`.
"""

import os
from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError
from rlvr_cli.models import lora
from rlvr_cli.storage import run_folders
from rlvr_cli.storage.shards import MANIFEST, read_sealed

CHECKPOINT = "_checkpoint"  # readers of Parquet directories skip it
WEIGHTS = "_weights"
OPTIMIZER = "optimizer/adamw.safetensors"
OPTIMIZER_BEFORE = "trainer.safetensors"


def is_model(path: Path) -> bool:
    return (path / "config.json").exists() or (path / lora.BASE).exists()


def optimizer_state(policy: Path) -> list[Path]:
    """The files of the optimizer's state in a policy's folder, none without one."""
    place, before = policy / OPTIMIZER, policy / OPTIMIZER_BEFORE
    files = sorted(place.parent.glob(f"{place.stem}*{place.suffix}"))
    return files or ([before] if before.exists() else [])


def policy_in(path: Path) -> Path | None:
    """The policy of a train-step directory, of a step, or of a run's newest checkpoint."""
    path = padded(path)
    if held := _held(path):
        return held
    if is_model(path):
        return path
    steps = run_folders.steps(path).values()
    updates = (path / "update", *(step / "update" for step in reversed(steps)))
    return next((held for update in updates if (held := _held(update))), None)


def padded(path: Path) -> Path:
    """The path with the number of a step as runs write it: `steps/2` is `steps/000002`."""
    parts = list(path.parts)
    for i, part in enumerate(parts[1:], 1):
        if parts[i - 1] == "steps" and part.isdigit():
            parts[i] = f"{int(part):06d}"
    return Path(*parts)


def _held(update: Path) -> Path | None:
    places = (update / CHECKPOINT, update / WEIGHTS)
    return next((place for place in places if is_model(place)), None)


def missing(path: Path) -> DataError | None:
    """Why a run, its step, or the checkpoint of it has no policy, and where there are others."""
    path = padded(path)
    update = path.parent if path.name in (CHECKPOINT, WEIGHTS) else path
    update = update / "update" if (update / "update" / MANIFEST).exists() else update
    manifest = read_sealed(update / MANIFEST) or {}
    if manifest.get("kind") != "steps":
        is_run = run_folders.is_run(path)
        return DataError(f"the run `{path}` has no checkpoint", "resume it") if is_run else None
    if (update / CHECKPOINT).exists():  # what is wrong with it is for its readers to say
        return None
    step, run = Path(os.path.abspath(update)).parent.name.lstrip("0"), update.parent.parent.parent
    if not step.isdigit() or not run_folders.is_run(run):
        return DataError(
            f"there is no checkpoint in `{update}`",
            f"run the `rlvr {manifest['stage']}` that made it again; it makes the checkpoint again",
        )
    options = _options(run)
    if manifest["summary"].get("optimizer") is None:
        why = f"step {step} wrote no checkpoint (--save-every {options.get('save_every')})"
    else:
        why = f"the checkpoint of step {step} was removed by --keep {options.get('keep')}"
    if _held(update):
        return DataError(f"{why}, only its weights are kept", f"name `{update}`")
    updates = (step / update.name for step in run_folders.steps(run).values())
    others = [other for other in updates if _held(other)]
    if not others:
        return DataError(why, "resume the run, which makes it again")
    numbers = ", ".join(other.parent.name.lstrip("0") for other in others)
    there = f"there are those of steps {numbers}" if others[1:] else f"there is that of {numbers}"
    return DataError(f"{why}; {there}", f"name one of them, as in `{others[-1]}`")


def _options(run: Path) -> dict[str, Any]:
    """What the run's configuration says of checkpoints, nothing where it is broken."""
    try:
        return run_folders.config(run)["train"]
    except (DataError, KeyError):
        return {}

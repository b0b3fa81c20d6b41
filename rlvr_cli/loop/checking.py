"""Whether a directory, or all of a run, is as it was written."""

from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError
from rlvr_cli.loop import stored_config
from rlvr_cli.loop.run_directory import RunDirectory
from rlvr_cli.models import memory_model
from rlvr_cli.models.checkpoints import CHECKPOINT
from rlvr_cli.models.policy import Policy, checkpoint_state
from rlvr_cli.storage import manifest as manifests, metrics_log, run_folders
from rlvr_cli.storage.shards import MANIFEST, Shards


def directory(path: Path) -> dict[str, Any]:
    """What a complete directory holds and what made it, after all of it is read."""
    shards = Shards.open(path)
    for index in range(len(shards)):
        shards.part(index)
    manifest = shards.manifest
    state = checkpoint_state(shards) if shards.kind == "steps" else None
    if state == "damaged":
        raise DataError(
            f"`{shards.path / CHECKPOINT}` is not as it was written",
            manifests.checkpoint_made_again(shards.path),
        )
    facts = {name: manifest[name] for name in ("kind", "stage", "params", "versions", "summary")}
    facts |= {"parts": len(shards), "rows": shards.rows, "digest": shards.digest}
    facts["parents"] = {role: parent["path"] for role, parent in manifest["parents"].items()}
    return facts | ({"checkpoint": state} if state else {})


def is_run(path: Path) -> bool:
    """Whether this is a run of train; what it was begun with may be damaged."""
    return any((path / name).exists() for name in (stored_config.CONFIG, stored_config.KEPT)) and (
        not (path / MANIFEST).exists()
    )


def run(path: Path) -> tuple[list[DataError], dict[str, Any]]:
    """What of a run is damaged, and how much of it was looked at.

    What is not complete is not damaged: a run that was stopped resumes.
    """
    damaged: list[DataError] = []
    complete = begun = 0
    for here in _directories(path):
        begun += not (here / MANIFEST).exists()
        try:
            if (here / MANIFEST).exists():
                complete += 1
                directory(here)
        except DataError as error:
            damaged.append(error)
    damaged += _of_run(path)
    return damaged, {"path": str(path), "directories": complete, "unfinished": begun}


def _directories(path: Path) -> list[Path]:
    folders = [path / "prompts"]
    folders += [f for kind in ("eval", "steps") for f in run_folders.steps(path, kind).values()]
    found = [stage for folder in folders if folder.is_dir() for stage in sorted(folder.iterdir())]
    return [stage for stage in found if any(stage.glob("_*.json")) or any(stage.glob("part-*"))]


def _of_run(path: Path) -> list[DataError]:
    """What is damaged of the files of the run itself."""
    damaged = []
    resume = f"resume `rlvr train --out {path}`, which mends it"
    try:
        begun = RunDirectory(path)
        begun.begun()
        damaged += [DataError(text, resume) for text in begun.remarks()]
        if begun.is_changed(memory := path / memory_model.FOLDER):
            damaged.append(DataError(f"`{memory}` is not as it was written", resume))
    except DataError as error:
        damaged.append(error)
    if lines := metrics_log.read(path).damaged:
        where = f"line {lines[0]} of `{path / metrics_log.METRICS}`"
        damaged.append(DataError(f"{where} is not as it was written", resume))
    return damaged

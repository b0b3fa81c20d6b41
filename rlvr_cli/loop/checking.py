"""Whether a directory, or all of a run, is as it was written."""

import contextlib
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError
from rlvr_cli.loop import published
from rlvr_cli.loop.run_directory import EVALUATION, OF_A_STEP, RunDirectory
from rlvr_cli.models import memory_model
from rlvr_cli.models.checkpoints import CHECKPOINT
from rlvr_cli.models.policy import checkpoint_state
from rlvr_cli.storage import (
    branch_origins,
    images,
    manifest as manifests,
    metrics_log,
    run_folders,
)
from rlvr_cli.storage.shards import MANIFEST, Shards


def directory(path: Path) -> dict[str, Any]:
    """What a complete directory holds and what wrote it; every part is read and checked."""
    shards = Shards.open(path)
    for index in range(len(shards)):
        shards.part(index)
    images.require_intact(shards)
    manifest = shards.manifest
    state = checkpoint_state(shards) if shards.kind == "steps" else None
    if state == "damaged":
        raise DataError(
            f"`{shards.path / CHECKPOINT}` is not as it was written",
            manifests.remake_checkpoint_hint(shards.path),
        )
    facts = {name: manifest[name] for name in ("kind", "stage", "params", "versions", "summary")}
    facts |= {"parts": len(shards), "rows": shards.rows, "digest": shards.digest}
    facts["parents"] = {role: _paths(manifest, role) for role in manifest["parents"]}
    return facts | ({"checkpoint": state} if state else {})


def _paths(manifest: dict[str, Any], role: str) -> str | list[str]:
    """The path of the parent of a role, or of each of several."""
    paths = [parent["path"] for parent in manifests.parents(manifest, role)]
    return paths if len(paths) > 1 else paths[0]


def run(path: Path) -> tuple[list[DataError], dict[str, Any]]:
    """What of a run is damaged, and how much of it was looked at.

    What is not complete is not damaged: a run that was stopped resumes.
    """
    damaged: list[DataError] = []
    directories = _directories(path)
    for here in directories:
        try:
            directory(here)
        except DataError as error:
            damaged.append(error)
    for step in run_folders.steps(path):
        try:
            if published.is_there(path, step):
                published.require_intact(path, step)
        except DataError as error:
            damaged.append(error)
    damaged += _of_run(path)
    facts: dict[str, Any] = {"path": str(path), "directories": len(directories)}
    if not damaged and (branched := branch_origins.of(path)):
        facts["origins"] = [asdict(origin) for origin in branched]
    return damaged, facts


def origins_of(path: Path) -> list[str]:
    """Where a run branched from, the nearest first, in words."""
    return [origin.described() for origin in branch_origins.of(path)]


def _directories(path: Path) -> list[Path]:
    """All that are complete, and those that must be, as later ones are."""
    logged: dict[int, Any] = {}
    with contextlib.suppress(DataError):
        logged = metrics_log.read(path).records
    evaluated = [step for step, record in logged.items() if "eval" in record]
    last = max([*run_folders.complete(path, "steps", "update"), *logged], default=-1)
    directories = [path / "prompts" / split for split in ("train", "heldout")]
    due = [RunDirectory(path).of("eval", step) / name for step in evaluated for name in EVALUATION]
    for kind, names in (("eval", EVALUATION), ("steps", OF_A_STEP)):
        for step, folder in run_folders.steps(path, kind).items():
            inner = sorted(stage for stage in folder.iterdir() if stage.is_dir())
            directories += inner
            if step < last + (kind == "steps"):
                begun = [stage for stage in inner if stage.name in ("logprobs", "memory")]
                due += [*(folder / name for name in names), *begun]
    complete = [stage for stage in directories if (stage / MANIFEST).exists()]
    return complete + [stage for stage in dict.fromkeys(due) if stage not in complete]


def _of_run(path: Path) -> list[DataError]:
    """Errors about damaged files of the run itself."""
    damaged = []
    resume = f"resume `rlvr train --out {shlex.quote(str(path))}`, which repairs it"
    try:
        begun = RunDirectory(path)
        begun.begun()
        damaged += [DataError(text, resume) for text in begun.remarks()]
        if wrong := branch_origins.damage(path, begun.require_inputs({})):
            damaged.append(wrong)
        if begun.is_changed(memory := path / memory_model.FOLDER):
            damaged.append(DataError(f"`{memory}` is not as it was written", resume))
    except DataError as error:
        damaged.append(error)
    try:
        logged = metrics_log.read(path)
    except DataError as error:
        return [*damaged, error]
    last = max(run_folders.complete(path, "steps", "update"), default=-1)
    lost = [step for step in range(last) if step not in logged.records]
    if logged.damaged or lost:
        of = f"line {logged.damaged[0]}" if logged.damaged else f"the line of step {lost[0]}"
        where = f"{of} of `{path / metrics_log.METRICS}`"
        damaged.append(DataError(f"{where} is not as it was written", resume))
    if logged.unproven and (path / run_folders.KEPT).exists():
        where = f"`{path / metrics_log.DIGESTS}`"
        damaged.append(DataError(f"{where} lacks step {logged.unproven[0]}", resume))
    return damaged

"""Damaged evaluations of a run's earlier steps, and which of them can be repeated."""

from dataclasses import dataclass
from pathlib import Path

from rlvr_cli.errors import DataError
from rlvr_cli.loop.run_directory import EVALUATION, RunDirectory
from rlvr_cli.storage import atomic, run_folders, writer
from rlvr_cli.storage.shards import MANIFEST, Shards
from rlvr_cli.terminal import console


@dataclass(frozen=True)
class Lost:
    """The steps whose evaluation is repeated: from their policy, or from stored completions."""

    sampled: list[int]
    scored: list[int]


def discard_damaged(run: RunDirectory, last: int) -> Lost:
    """Removes damaged evaluations that can be repeated; reports those that cannot.

    Those of the `last` step and later ones are repeated when the run comes to them.
    """
    lost = Lost([], [])
    for step, here in run_folders.steps(run.path, "eval").items():
        damaged = [name for name in EVALUATION if not _is_intact(here / name)]
        others = [] if "rollouts" in damaged else _stale(here, damaged)
        damaged += others
        begun = any((here / name / MANIFEST).exists() for name in EVALUATION)
        is_legible = not others and all(writer.is_legible(here / name) for name in damaged)
        if not damaged or (step >= last and is_legible):
            continue
        if step >= last or step == 0 or run.has_checkpoint(step):
            how = "sampled again from its policy"
            lost.sampled.extend([step] if step < last else [])
        elif damaged == ["scores"]:
            how = "scored again"
            lost.scored.append(step)
        else:
            if begun:
                names = " and ".join(f"`{here / name}`" for name in damaged)
                console.say(
                    f"train: {names}: damaged or gone, as is the checkpoint of step {step}; that "
                    "evaluation is left out"
                )
            continue
        console.say(f"train: the evaluation of step {step} was damaged or cut off: it is {how}")
        for directory in (here / name for name in damaged):
            if not writer.is_legible(directory) or directory.name in others:
                atomic.remove(directory)
    return lost


def _stale(here: Path, damaged: list[str]) -> list[str]:
    """The directories that were derived from other completions than the stored ones."""
    rollouts, stale = Shards.open(here / "rollouts"), []
    for name in [name for name in EVALUATION[1:] if name not in damaged]:
        try:
            rollouts.require_child(Shards.open(here / name))
        except DataError:
            stale.append(name)
    return stale


def _is_intact(directory: Path) -> bool:
    """Whether a directory is complete and all its parts exist; their content is not read."""
    try:
        shards = Shards.open(directory)
    except DataError:
        return False
    return all((directory / part["name"]).is_file() for part in shards.manifest["parts"])

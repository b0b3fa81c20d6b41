"""Rollouts and what was computed from them: the directories that belong together."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rlvr_cli.errors import DataError
from rlvr_cli.storage import manifest as manifests
from rlvr_cli.storage.joined import TwoPrompts
from rlvr_cli.storage.manifest import Damaged
from rlvr_cli.storage.shards import MANIFEST, Shards, read_sealed

_KINDS = ("rollouts", "scores", "logprobs", "advantages", "metrics")


@dataclass(frozen=True)
class Lineage:
    """Rollouts, the prompts they answer, and what was computed from them; None if missing."""

    rollouts: Shards
    prompts: Shards | None
    scores: Shards | None
    logprobs: Shards | None
    advantages: Shards | None


def find(path: Path) -> Lineage:
    """The lineage of a directory of any kind, or of a folder that holds `scores` or `rollouts`.

    Relatives are looked for next to it and to its rollouts, by the digests that they record.
    Of several of one kind the directory given counts first, then the one named as its kind.
    """
    given = Shards.open(_inside(path))
    if given.kind not in _KINDS:
        raise DataError(
            f"`{given.path}` holds {given.kind}, rollouts or scores of them were expected",
            "name the rollouts, or their scores",
        )
    if given.kind == "metrics":
        given = _ancestor(given, "scores")
    rollouts = given if given.kind == "rollouts" else _ancestor(given, "rollouts")
    siblings = list(_siblings(given, rollouts))
    if given.kind == "advantages":
        scores: Shards | None = _ancestor(given, "scores")
    else:
        scores = _child(siblings, "scores", rollouts)
    return Lineage(
        rollouts,
        _prompts(rollouts),
        scores,
        _child(siblings, "logprobs", rollouts),
        scores and _child(siblings, "advantages", scores),
    )


def _inside(path: Path) -> Path:
    """The directory itself, or the one in it to start from."""
    if not (path / MANIFEST).exists():
        for name in ("scores", "rollouts"):
            if (path / name / MANIFEST).exists():
                return path / name
    if path.is_file():
        raise DataError(
            f"`{path}` is a file, a directory was expected",
            f"make directories of it: rlvr import {shlex.quote(str(path))} --out imported",
        )
    return path


def _ancestor(shards: Shards, kind: str) -> Shards:
    try:
        return shards.parent(kind)
    except LookupError as error:
        raise DataError(
            f"`{shards.path}` was not made from {kind} on disk",
            "import the completions with `rlvr import`, and name the scores that it makes",
        ) from error


def _prompts(rollouts: Shards) -> Shards | None:
    """The prompts, None where they were moved or changed since."""
    try:
        return rollouts.parent("prompts")
    except (Damaged, TwoPrompts):
        raise
    except (LookupError, DataError):
        return None


def _siblings(given: Shards, rollouts: Shards) -> Iterator[Shards]:
    """The complete directories next to both: the one given, those named as their kind, the rest."""
    yield given
    folders = {
        path.parent
        for folder in (given.path, *(one.path for one in rollouts.inputs))
        for path in folder.absolute().parent.glob(f"*/{MANIFEST}")
    }
    for path in sorted(folders, key=lambda path: (path.name not in _KINDS, path)):
        if (read_sealed(path / MANIFEST) or {}).get("kind") in _KINDS:
            yield Shards.open(path)


def _child(siblings: list[Shards], kind: str, parent: Shards) -> Shards | None:
    """The first of a kind that records this parent."""
    for shards in siblings:
        recorded = manifests.digests(shards.manifest, parent.kind)
        if shards.kind == kind and recorded == [one.digest for one in parent.inputs]:
            return shards
    return None

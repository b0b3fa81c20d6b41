"""Rollouts and what was made of them: the directories that belong together."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rlvr_cli.errors import DataError
from rlvr_cli.storage.shards import MANIFEST, Shards, read_sealed

_KINDS = ("rollouts", "scores", "logprobs", "advantages", "metrics")


@dataclass(frozen=True)
class Lineage:
    """Rollouts, the prompts they answer, and what was made of them; None where it is not there."""

    rollouts: Shards
    prompts: Shards | None
    scores: Shards | None
    logprobs: Shards | None
    advantages: Shards | None


def find(path: Path) -> Lineage:
    """The lineage of a directory of any kind, or of a folder that holds `scores` or `rollouts`.

    Relatives are looked for beside it and beside its rollouts, by the digests that they record.
    Of several of one kind the directory given counts first, then the one named as its kind.
    """
    given = Shards.open(_inside(path))
    if given.kind not in _KINDS:
        raise DataError(
            f"`{given.path}` holds {given.kind}, rollouts or what was made of them were expected",
            "name the rollouts, or their scores",
        )
    if given.kind == "metrics":
        given = _ancestor(given, "scores")
    rollouts = given if given.kind == "rollouts" else _ancestor(given, "rollouts")
    beside = list(_beside(given, rollouts))
    if given.kind == "advantages":
        scores: Shards | None = _ancestor(given, "scores")
    else:
        scores = _child(beside, "scores", rollouts)
    return Lineage(
        rollouts,
        _prompts(rollouts),
        scores,
        _child(beside, "logprobs", rollouts),
        scores and _child(beside, "advantages", scores),
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
            f"make directories of it: rlvr import {path} --out imported",
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
    except (LookupError, DataError):
        return None


def _beside(given: Shards, rollouts: Shards) -> Iterator[Shards]:
    """The complete directories beside both: the one given, those named as their kind, the rest."""
    yield given
    found = {
        path.parent
        for folder in (given.path, rollouts.path)
        for path in folder.absolute().parent.glob(f"*/{MANIFEST}")
    }
    for path in sorted(found, key=lambda path: (path.name not in _KINDS, path)):
        if (read_sealed(path / MANIFEST) or {}).get("kind") in _KINDS:
            yield Shards.open(path)


def _child(beside: list[Shards], kind: str, parent: Shards) -> Shards | None:
    """The first of a kind that records this parent."""
    for shards in beside:
        recorded = shards.manifest["parents"].get(parent.kind, {})
        if shards.kind == kind and recorded.get("digest") == parent.digest:
            return shards
    return None

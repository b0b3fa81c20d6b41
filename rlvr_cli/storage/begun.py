"""What is stored about a directory that a stage made, or began to make."""

from pathlib import Path
from typing import Any

from rlvr_cli.storage import journal, manifest as manifests
from rlvr_cli.storage.manifest import MANIFEST, read as read_sealed


def is_begun(path: Path) -> bool:
    """Whether a stage has made a directory there, or begun to."""
    return (path / MANIFEST).exists() or bool(journal.listings(path))


def begun_with(path: Path) -> dict[str, Any]:
    """The params of the shard directory at `path`, complete or not; empty if there is none."""
    return dict(_begun(path).get("params", {}))


def begun_behaviour(path: Path) -> dict[str, int]:
    """The versions, where above 1, of the code that made that directory; see `Plan.behaviour`."""
    return dict(_begun(path).get("behaviour", {}))


def begun_paths(path: Path) -> dict[str, str]:
    """The paths that directory records for its policy and other models, by role."""
    return dict(_begun(path).get("paths", {}))


def begun_fingerprint(path: Path) -> str | None:
    """The hash of all that decides what that directory holds."""
    return _begun(path).get("fingerprint")


def begun_extra(path: Path) -> tuple[str, ...] | None:
    """The columns of that directory in addition to those of its kind; None where there is none."""
    extra = _begun(path).get("extra")
    return None if extra is None else tuple(extra)


def begun_parents(path: Path) -> dict[str, list[str]]:
    """The digests of the directories that it is made from, by their roles."""
    begun = _begun(path)
    return {role: manifests.digests(begun, role) for role in begun.get("parents", {})}


def _begun(path: Path) -> dict[str, Any]:
    for listing in (path / MANIFEST, *journal.listings(path)):
        if manifest := read_sealed(listing):
            return manifest
    first_draw = path / "_draws" / "0" / "rollouts"  # rollouts with draws begin with these
    manifest = _begun(first_draw) if first_draw.is_dir() else {}
    if not manifest:
        return {}
    params = {n: v for n, v in manifest["params"].items() if n not in ("draw", "max_draws")}
    return {"params": params, "paths": manifest.get("paths", {})}

"""Manifests on disk: sealed by a checksum, and checked once, so that readers can rely on them.

A checksum says that a file is as it was written, not that a writer of shards wrote it: so names
that leave the directory, numbers that cannot be and types that are others are refused here, once.
"""

import hashlib
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError
from rlvr_cli.storage import atomic, schema

MANIFEST = "_manifest.json"
_OF_A_STEP = "{} makes it again if its step is not finished, and otherwise continues without it"
_PART = re.compile(r"part-(\d{5,18})\.parquet")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Damaged(DataError):
    """A manifest is there, and is not as a writer of shards left it."""


def seal(content: dict[str, Any]) -> bytes:
    """A file of JSON that says by a checksum whether it is as it was written."""
    return atomic.pretty_json({**content, "sha256": atomic.digest_of(content)})


def unsealed(path: Path) -> dict[str, Any] | None:
    """What was sealed in `path`, None if there is no file; an error if it is not as written."""
    try:
        data = atomic.read_if_there(path)
    except DataError as error:  # a loop of links, a pipe
        raise Damaged(str(error), error.hint) from error
    if data is None:
        return None
    if (content := unseal(data)) is None:
        raise Damaged(f"`{path}` was cut or changed after it was written", remake_hint(path.parent))
    return content


def unseal(data: bytes) -> dict[str, Any] | None:
    """What was sealed in these bytes; None if they are not as written."""
    try:
        content = json.loads(data)
        checksum = content.pop("sha256")
        if atomic.digest_of(content) == checksum:
            return dict(content)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    return None


def remake_hint(directory: Path) -> str:
    """The hint about a damaged directory; following it loses nothing."""
    run = _run_of(directory)
    if run is None:
        return f"move `{directory}` away and run the command that made it again"
    resume = f"its `rlvr train --out {shlex.quote(str(run))}`"
    if directory.parent.parent == run / "steps":
        return _OF_A_STEP.format(resume)
    if directory.parent.parent == run / "eval":
        return f"resume {resume}, which makes it again if its policy still exists"
    return f"move `{directory}` away and resume {resume}"


def remake_part_hint(part: Path) -> str:
    """The hint about a damaged part; following it loses nothing."""
    run = _run_of(part.parent)
    if run is None:
        return "run the command that made the directory again; it makes just this part again"
    resume = f"its `rlvr train --out {shlex.quote(str(run))}`"
    if part.parent.parent.parent == run / "steps":
        return _OF_A_STEP.format(resume)
    return f"remove it and resume {resume}, which makes it again if its policy still exists"


def remake_checkpoint_hint(update: Path) -> str:
    """The hint about the damaged checkpoint of an update."""
    if run := _run_of(update):
        resume = f"`rlvr train --out {shlex.quote(str(run))}`"
        return f"{resume} continues without it: from an earlier one if it is the last"
    return "run the command that made it again; it makes the checkpoint again"


def _run_of(directory: Path) -> Path | None:
    """The run that a directory of a stage is in."""
    outer = list(directory.parents)[1:3]
    return next((path for path in outer if (path / "inputs.json").exists()), None)


def read(path: Path) -> dict[str, Any] | None:
    """The manifest in `path`, None if there is none; an error if it is none of this version.

    That of another schema version comes as it is, for its reader to refuse.
    """
    manifest = unsealed(path)
    if manifest is None or manifest.get("schema_version", schema.VERSION) != schema.VERSION:
        return manifest
    if wrong := _wrong(manifest, complete=path.name == MANIFEST):
        raise Damaged(f"`{path}` is not a manifest of rlvr: {wrong}", remake_hint(path.parent))
    return manifest


def index_of(part: dict[str, Any]) -> int:
    """The index of a listed part."""
    return int(part["name"][5:-8])


def parents(manifest: dict[str, Any], role: str) -> list[dict[str, str]]:
    """The path and the digest of each parent of a role, in order; none without one."""
    recorded = manifest["parents"].get(role, [])
    return recorded if isinstance(recorded, list) else [recorded]


def digests(manifest: dict[str, Any], role: str) -> list[str]:
    """The digest of each parent of a role, in order."""
    return [parent["digest"] for parent in parents(manifest, role)]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_sha256(value: Any) -> bool:
    return isinstance(value, str) and _SHA256.fullmatch(value) is not None


def _are_texts(value: Any) -> bool:
    texts = value.values() if isinstance(value, dict) else value
    return isinstance(value, dict | list) and all(isinstance(text, str) for text in texts)


def _are_parents(value: Any) -> bool:
    return isinstance(value, dict) and all(
        all(map(_is_parent, parent)) and len(parent) > 1
        if isinstance(parent, list)
        else _is_parent(parent)
        for parent in value.values()
    )


def _is_parent(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("path"), str)
        and "\0" not in value["path"]
        and _is_sha256(value.get("digest"))
    )


_SHAPE: dict[str, Callable[[Any], bool]] = {
    "kind": lambda value: isinstance(value, str),
    "stage": lambda value: isinstance(value, str),
    "params": lambda value: isinstance(value, dict),
    "parents": _are_parents,
    "paths": lambda value: isinstance(value, dict) and _are_texts(value),
    "versions": lambda value: isinstance(value, dict) and _are_texts(value),
    "extra": lambda value: isinstance(value, list) and _are_texts(value),
    "only": lambda value: value is None or (isinstance(value, list) and _are_texts(value)),
    "fingerprint": _is_sha256,
    "digest": _is_sha256,
    "planned_parts": _is_count,
    "parts": lambda value: isinstance(value, list),
}


def _wrong(manifest: dict[str, Any], *, complete: bool) -> str | None:
    """What of a manifest no writer wrote, None where all is well."""
    for name, fits in _SHAPE.items():
        if name not in manifest:
            return f"it has no `{name}`"
        if not fits(manifest[name]):
            return f"its `{name}` is {_brief(manifest[name])}"
    if complete and not isinstance(manifest.get("summary"), dict):
        return "it has no `summary`"
    behaviour = manifest.get("behaviour", {})
    if not isinstance(behaviour, dict) or not all(map(_is_count, behaviour.values())):
        return f"its `behaviour` is {_brief(behaviour)}"
    return _wrong_part(manifest, complete=complete)


def _wrong_part(manifest: dict[str, Any], *, complete: bool) -> str | None:
    parts, planned = manifest["parts"], manifest["planned_parts"]
    indices = []
    for number, part in enumerate(parts):
        name = part.get("name") if isinstance(part, dict) else None
        if not (isinstance(name, str) and _PART.fullmatch(name)):
            return f"part {number} is named {_brief(name)}"
        if not _is_count(part.get("rows")):
            return f"`{name}` has {_brief(part.get('rows'))} rows"
        if not _is_sha256(part.get("sha256")):
            return f"the sha256 of `{name}` is {_brief(part.get('sha256'))}"
        indices.append(index_of(part))
    if indices != sorted(set(indices)) or any(index >= planned for index in indices):
        return f"its {len(parts)} parts are not the first of {planned}, each once and in order"
    if not complete:
        return None
    if len(parts) != planned:
        return f"it lists {len(parts)} of {planned} parts"
    checksums = "".join(part["sha256"] for part in parts)
    digest = hashlib.sha256((manifest["fingerprint"] + checksums).encode()).hexdigest()
    return None if digest == manifest["digest"] else "its digest is not that of its parts"


def _brief(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."

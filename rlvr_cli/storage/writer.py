"""Writing a shard directory: parts written completely, a manifest written last, resume."""

import contextlib
import functools
import hashlib
import importlib.metadata
import os
import platform
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.storage import atomic, locks, partial_completions, rehearsal
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import (
    ALL_PARTS,
    MANIFEST,
    METADATA_KEY,
    Shards,
    Share,
    read_sealed,
    seal,
)

OnPart = Callable[[int, str], None]
DeferredTable = Callable[[], pa.Table]
_LEFTOVERS = ("_partial*.json", "_lock*", "_tmp-*", partial_completions.PATTERN)
_LIBRARIES = (
    *("rlvr", "pyarrow", "numpy", "torch", "transformers", "scipy"),
    *("math-verify", "latex2sympy2_extended", "sympy"),
)


def write_shards(
    path: Path, plan: Plan, make: Callable[[int], pa.Table], **options: Any
) -> Shards | None:
    """`write_shards_streaming` of parts that are computed one by one, in order."""
    return write_shards_streaming(
        path, plan, lambda missing: ((i, make(i)) for i in missing), **options
    )


def write_shards_streaming(
    path: Path,
    plan: Plan,
    make: Callable[[list[int]], Iterator[tuple[int, pa.Table | DeferredTable]]],
    *,
    share: Share = ALL_PARTS,
    summarise: Callable[[Shards], dict[str, Any]] = lambda shards: {},
    on_part: OnPart = lambda index, state: None,
    is_intact: Callable[[Shards], bool] = lambda shards: True,
) -> Shards | None:
    """Makes the parts of `path` that are missing or damaged, then its manifest.

    `make` is given the indices of those parts and yields each with its rows, in any order; or with
    a function that makes them, which another thread calls while `make` goes on to the next.
    Running it again resumes; on a complete directory it makes nothing. Another
    plan is refused. None if parts of other shares are still missing. `on_part` hears of every part
    of this share: kept, written, or rewritten (it was damaged). `is_intact` says of a complete
    directory whether what it holds besides its parts is intact; if not, all is written again.
    """
    mine = range(share.index, plan.parts, share.count)
    plan = resume(path, plan)
    listed = _listed_parts(path)
    complete = {i: e for i, e in listed.items() if _is_intact(path / e["name"], e)}
    if (path / MANIFEST).exists() and not is_intact(Shards.open(path)):
        complete = {}
    elif (path / MANIFEST).exists() and all(i in complete for i in mine) and not _leftovers(path):
        for index in mine:
            on_part(index, "kept")
        return Shards.open(path)
    if not all(i in complete for i in mine):
        for _, manifest in _listings(path):
            plan.require_behaviour(manifest, path)
    rehearsal.end()
    atomic.make_folder(path)
    with _writing(path, share):
        _sweep(path, share)
        done = {i: e for i, e in complete.items() if i in mine}
        kept = deque(index for index in mine if index in done)
        missing = [index for index in mine if index not in done]

        def record(index: int, part: dict[str, Any]) -> None:
            done[index] = part
            if share.count > 1 or len(done) < len(mine):
                _write_manifest(_partial(path, share), _manifest(path, plan, done))
            while kept and kept[0] < index:
                on_part(kept.popleft(), "kept")
            on_part(index, "rewritten" if index in listed else "written")

        if missing:
            _write(path, plan, make(missing), record)
        for index in kept:
            on_part(index, "kept")
        with _finishing(path, share):
            return _finish(path, plan, share, done, summarise)


def _write(
    path: Path,
    plan: Plan,
    tables: Iterator[tuple[int, pa.Table | DeferredTable]],
    record: Callable[[int, dict[str, Any]], None],
) -> None:
    """Writes each part and records it; deferred ones as soon as they are written."""
    waiting: deque[tuple[int, Future[dict[str, Any]]]] = deque()

    def settle(*, wait: bool) -> None:
        while waiting and (wait or waiting[0][1].done()):
            index, part = waiting.popleft()
            record(index, part.result())

    with ThreadPoolExecutor(1, "writer") as writer:
        try:
            for index, table in tables:
                if callable(table):
                    waiting.append((index, writer.submit(_write_later, path, plan, index, table)))
                    settle(wait=False)
                else:
                    record(index, _write_part(path, plan, index, table))
        finally:  # also of a run that is interrupted, or whose engine fails
            settle(wait=True)


def write_all_shards(
    path: Path, plan: Plan, make: Callable[[int], pa.Table], **options: Any
) -> Shards:
    """`write_shards` without shares: the directory is complete when it returns."""
    shards = write_shards(path, plan, make, **options)
    assert shards is not None, "all parts are of this share"
    return shards


def _finish(
    path: Path,
    plan: Plan,
    share: Share,
    done: dict[int, dict[str, Any]],
    summarise: Callable[[Shards], dict[str, Any]],
) -> Shards | None:
    """Writes the manifest once every share is done; this share's parts win over old listings."""
    listed = _listed_parts(path) | done
    if len(listed) < plan.parts:
        return None
    draft = Shards(path, _manifest(path, plan, listed))
    complete = {**draft.manifest, "summary": summarise(draft)}
    _write_manifest(_partial(path, share), complete)
    os.replace(_partial(path, share), path / MANIFEST)
    for pattern in ("_partial*.json", partial_completions.PATTERN):
        for stale in path.glob(pattern):
            atomic.remove(stale)
    atomic.sync_folder(path)
    return Shards(path, complete)


def _write_manifest(path: Path, manifest: dict[str, Any]) -> None:
    atomic.write_atomic(path, seal(manifest))


def _partial(path: Path, share: Share) -> Path:
    suffix = f"-{share.index}of{share.count}" if share.count > 1 else ""
    return path / f"_partial{suffix}.json"


def _leftovers(path: Path) -> list[Path]:
    return [p for pattern in _LEFTOVERS for p in path.glob(pattern)]


def _manifest(path: Path, plan: Plan, parts: dict[int, dict[str, Any]]) -> dict[str, Any]:
    ordered = [parts[index] for index in sorted(parts)]
    checksums = "".join(part["sha256"] for part in ordered)
    return {
        **plan.identity,
        "fingerprint": plan.fingerprint,
        "digest": hashlib.sha256((plan.fingerprint + checksums).encode()).hexdigest(),
        "parents": {
            role: {"path": os.path.relpath(parent.path, path), "digest": parent.digest}
            for role, parent in plan.parents.items()
        },
        "paths": plan.paths,
        "versions": _versions(),
        "planned_parts": plan.parts,
        "parts": ordered,
    }


def _write_later(path: Path, plan: Plan, index: int, make: DeferredTable) -> dict[str, Any]:
    return _write_part(path, plan, index, make())


def _write_part(path: Path, plan: Plan, index: int, table: pa.Table) -> dict[str, Any]:
    origin = {**plan.identity, "fingerprint": plan.fingerprint, "part": index}
    origin["versions"] = _versions()
    table = table.select(plan.schema.names).cast(plan.schema)
    table = table.replace_schema_metadata(
        {METADATA_KEY: atomic.canonical_json(origin).encode()}
    ).combine_chunks()
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    data = sink.getvalue().to_pybytes()
    name = f"part-{index:05d}.parquet"
    atomic.write_atomic(path / name, data)
    return {"name": name, "rows": table.num_rows, "sha256": hashlib.sha256(data).hexdigest()}


def resume(path: Path, plan: Plan) -> Plan:
    """The plan as `path` was begun; an error if that was of another plan, or of two versions.

    An earlier version may have begun it: then its parts are written as that version had them.
    """
    listings = _listings(path)
    plans = [plan.continuing(manifest, path) for _, manifest in listings]
    if len({begun.fingerprint for begun in plans}) > 1:
        raise UsageError(
            f"the shares of `{path}` were begun by versions of rlvr that store other options",
            "remove the directory, and make all shares with one version",
        )
    return replace(plans[0], begun_columns=_stored_columns(path, listings)) if plans else plan


def _stored_columns(
    path: Path, listings: list[tuple[str, dict[str, Any]]]
) -> tuple[str, ...] | None:
    """The columns of the parts that are there; None without a part that is as it was written."""
    for part in (part for _, manifest in listings for part in manifest["parts"]):
        if _is_intact(path / part["name"], part):
            return tuple(pq.read_schema(path / part["name"]).names)
    return None


def is_legible(path: Path) -> bool:
    """Whether all that lists parts in a directory can be read."""
    try:
        _listings(path)
    except DataError:
        return False
    return True


def reopen(path: Path) -> None:
    """Removes what a directory holds, but for the identity that it was begun with.

    That identifies a policy which was not saved, and later steps name it.
    """
    listings = _listings(path)
    if listings:
        begun = {name: v for name, v in listings[0][1].items() if name != "summary"}
        _write_manifest(_partial(path, ALL_PARTS), {**begun, "parts": []})
    for child in path.iterdir() if path.exists() else ():
        is_ours = child.name.startswith(("_", "part-"))
        if is_ours and child != _partial(path, ALL_PARTS):
            atomic.remove(child)


def _listings(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """The manifest and the partial ones of a directory, by file name."""
    names = [path / MANIFEST, *sorted(path.glob("_partial*.json"))]
    return [(name.name, manifest) for name in names if (manifest := read_sealed(name))]


def _listed_parts(path: Path) -> dict[int, dict[str, Any]]:
    """The parts that the manifests of `path` list, by index."""
    return {int(part["name"][5:-8]): part for _, m in _listings(path) for part in m["parts"]}


def _is_intact(path: Path, entry: dict[str, Any]) -> bool:
    return path.is_file() and hashlib.sha256(atomic.read_bytes(path)).hexdigest() == entry["sha256"]


@contextlib.contextmanager
def _writing(path: Path, share: Share) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        stack.enter_context(locks.locked(path / "_lock", shared=share.count > 1))
        if share.count > 1:
            stack.enter_context(locks.locked(path / f"_lock-{share.index}of{share.count}"))
        yield


def _finishing(path: Path, share: Share) -> contextlib.AbstractContextManager[None]:
    """One share at a time; the only share has the directory to itself anyway."""
    if share.count == 1:
        return contextlib.nullcontext()
    return locks.locked(path / "_lock-finish", wait=True)


def _sweep(path: Path, share: Share) -> None:
    """Removes what a killed process left of this share's files."""
    for stale in path.glob("_tmp-*"):
        index = stale.name.removeprefix("_tmp-part-")[:5]
        if share.count == 1 or (index.isdigit() and int(index) % share.count == share.index):
            atomic.remove(stale)


@functools.cache
def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in _LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions

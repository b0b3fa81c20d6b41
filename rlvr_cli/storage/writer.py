"""Writing a shard directory: parts written completely, a manifest written last, resume."""

import contextlib
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.storage import atomic, dry_run, fetched, journal, locks
from rlvr_cli.storage.begun import is_begun
from rlvr_cli.storage.leases import Leases
from rlvr_cli.storage.part_writer import (
    LOCK,
    PartQueue as PartQueue,
    PartWriter,
    begin as write_plan,
    leftovers,
)
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.records import is_intact as is_part_intact
from rlvr_cli.storage.shards import MANIFEST, Shards, read_sealed, seal
from rlvr_cli.storage.share import ALL_PARTS, Share
from rlvr_cli.terminal import console

OnPart = Callable[[int, str], None]
DeferredTable = Callable[[], pa.Table]
_POLL_S = (0.02, 1.0)  # between two checks for the parts of others, at first and at most
_MESSAGE_AFTER_S = 3.0


def write_shards(
    path: Path, plan: Plan, make: Callable[[int], pa.Table], **options: Any
) -> Shards | None:
    """`write_shards_streaming` with a function that computes one part, in order."""
    return write_shards_streaming(
        path, plan, lambda queue: ((i, make(i)) for i in queue), **options
    )


def write_all_shards(
    path: Path, plan: Plan, make: Callable[[int], pa.Table], **options: Any
) -> Shards:
    """`write_shards` without shares: the directory is complete when it returns."""
    shards = write_shards(path, plan, make, **options)
    assert shards is not None, "all parts are of this share"
    return shards


def write_shards_streaming(
    path: Path,
    plan: Plan,
    make: Callable[[PartQueue], Iterator[tuple[int, pa.Table | DeferredTable]]],
    *,
    share: Share = ALL_PARTS,
    summarise: Callable[[Shards], dict[str, Any]] = lambda shards: {},
    on_part: OnPart = lambda index, state: None,
    is_intact: Callable[[Shards], bool] | None = None,
) -> Shards | None:
    """Makes the parts of `path` that are missing or damaged, then its manifest.

    `make` gets a queue of the indices of those parts; taking an index claims the part for this
    process. It yields each index with its rows, in any order; or with a function that computes the
    rows, which another thread calls while `make` continues with the next part.

    Running it again resumes; on a complete directory it makes nothing. Another plan is refused.
    Several processes on one directory share its parts: each begins with its share, and continues
    with parts that no living process has claimed. With a share this returns None if other
    processes hold the parts that are left; without one it waits for them. `on_part` is called for
    every part that is kept, written, or rewritten because it was damaged.

    `is_intact` checks the files of a complete directory other than its parts; if they are not
    intact, everything is written again. Only one process makes such a directory.
    """
    fetched.require_outside(path)
    begun, is_alone = resume(path, plan), is_intact is not None
    overwrite = False
    if is_intact and (path / MANIFEST).exists():
        overwrite = not is_intact(Shards.open(path))
    leases = Leases(path, competes=not (share.fixed or is_alone))
    writer = PartWriter(path, begun, leases, overwrite=overwrite)
    if not overwrite:
        writer.refresh()
    progress = _ProgressReporter(on_part, share.of(plan.parts), writer)
    is_done = all(i in writer.done for i in (progress.own if share.fixed else range(plan.parts)))
    if is_done and (path / MANIFEST).exists() and not leftovers(path):
        progress.end()
        return Shards.open(path)
    if not is_done:
        for _, manifest in _listings(path):
            begun.require_behaviour(manifest, path)
    dry_run.stop()
    with contextlib.ExitStack() as stack:
        stack.enter_context(atomic.made_folder(path))
        if is_alone:
            stack.enter_context(locks.locked(path / LOCK))
        stack.callback(lambda: _withdraw_plan(path, leases) if writer.has_begun else None)
        stack.callback(leases.close)
        leases.open()
        writer.begin()
        if resume(path, plan, leases).fingerprint != begun.fingerprint:  # another process' plan
            begun, has_begun = resume(path, plan, leases), writer.has_begun
            writer = progress.writer = PartWriter(path, begun, leases, overwrite=overwrite)
            writer.has_begun = has_begun
        return _make_all(writer, make, share, summarise, progress, leases)


def begin(path: Path, plan: Plan) -> None:
    """Begins a directory with this plan, unless it is begun."""
    if is_begun(path):
        return
    atomic.make_folder(path)
    write_plan(path, plan, uuid.uuid4().hex[:16])


def _make_all(
    writer: PartWriter,
    make: Callable[[PartQueue], Iterator[tuple[int, pa.Table | DeferredTable]]],
    share: Share,
    summarise: Callable[[Shards], dict[str, Any]],
    progress: "_ProgressReporter",
    leases: Leases,
) -> Shards | None:
    """Makes parts until the directory is complete, or the rest is left to other processes."""
    backoff = _Backoff(leases)
    while True:
        queue = PartQueue(writer, progress.own, share.others(writer.parts))
        if queue:
            _write(writer, make(queue), progress)
            assert all(index in writer.done for index in queue.claimed), "a part was not made"
        leases.sync()
        writer.refresh()
        left = [index for index in range(writer.parts) if index not in writer.done]
        if not left and (shards := writer.finish(summarise)) is not None:
            progress.end()
            return shards
        leaves = share.count > 1 or not share.waits
        if share.fixed or (leaves and writer.is_left_to_others(left)):
            progress.end()
            return None
        backoff.wait(len(left))


def _write(
    writer: PartWriter,
    tables: Iterator[tuple[int, pa.Table | DeferredTable]],
    progress: "_ProgressReporter",
) -> None:
    """Writes each part and reports it; deferred ones as soon as they are written."""
    waiting: deque[tuple[int, Future[None]]] = deque()

    def settle(*, wait: bool) -> None:
        while waiting and (wait or waiting[0][1].done()):
            index, part = waiting.popleft()
            part.result()
            progress.written(index)

    with ThreadPoolExecutor(1, "writer") as thread:
        try:
            for index, table in tables:
                if callable(table):
                    waiting.append((index, thread.submit(_write_deferred, writer, index, table)))
                    settle(wait=False)
                else:
                    writer.write(index, table)
                    progress.written(index)
        finally:  # also of a run that is interrupted, or whose engine fails
            settle(wait=True)


def _write_deferred(writer: PartWriter, index: int, make: DeferredTable) -> None:
    writer.write(index, make())


class _ProgressReporter:
    """Calls `on_part` for the parts of a share: in order, except for those that finish later."""

    def __init__(self, on_part: OnPart, own: range, writer: PartWriter) -> None:
        self.own, self.writer, self._on_part = own, writer, on_part
        self._noted = {index for index in range(writer.parts) if writer.is_noted(index)}
        self._kept = deque(index for index in own if index in writer.done)
        self._reported: set[int] = set()

    def written(self, index: int) -> None:
        while self._kept and self._kept[0] < index:
            self._report(self._kept.popleft(), "kept")
        self._report(index, "rewritten" if index in self._noted else "written")

    def end(self) -> None:
        """Reports the parts of the share that existed, or that others made meanwhile."""
        for index in self.own:
            if index in self.writer.done and index not in self._reported:
                self._report(index, "kept")

    def _report(self, index: int, state: str) -> None:
        self._reported.add(index)
        self._on_part(index, state)


class _Backoff:
    """Waits longer from one check to the next, as long as nothing changes."""

    def __init__(self, leases: Leases) -> None:
        self._leases, self._left, self._has_message = leases, -1, False
        self._seconds, self._since = _POLL_S[0], time.monotonic()

    def wait(self, left: int) -> None:
        if left != self._left:
            self._left, self._seconds = left, _POLL_S[0]
        time.sleep(self._seconds)
        self._seconds = min(2 * self._seconds, _POLL_S[1])
        if not self._has_message and time.monotonic() - self._since > _MESSAGE_AFTER_S:
            self._has_message = True
            who = " and ".join(name for _, name in self._leases.others()) or "others"
            console.say(
                f"waiting for parts that {who} took; parts of a process that stops are taken over"
            )


def resume(path: Path, plan: Plan, leases: Leases | None = None) -> Plan:
    """The plan with which `path` was begun; an error if it is another plan, or of two versions.

    An earlier version may have begun it: then its parts are written as that version had them. A
    plan that a dead process left without any part is ignored.
    """
    listings = _listings(path)
    try:
        plans = [plan.continuing(manifest, path) for _, manifest in listings]
    except UsageError:
        if [name for name, _ in listings] == [journal.PLAN] and not _is_bound(path, leases):
            return plan
        raise
    if len({begun.fingerprint for begun in plans}) > 1:
        raise UsageError(
            f"the shares of `{path}` were begun by versions of rlvr that store other options",
            "remove the directory, and make all shares with one version",
        )
    return replace(plans[0], begun_columns=_stored_columns(path, listings)) if plans else plan


def _is_bound(path: Path, leases: Leases | None) -> bool:
    """Whether the directory has a part, or another process works on it."""
    return any(journal.parts_of(path)) or any((leases or Leases(path)).others())


def _withdraw_plan(path: Path, leases: Leases) -> None:
    """Removes the plan if no part was written, so that the next command may use another."""
    if leases.has_noted or journal.listings(path) != [path / journal.PLAN]:
        return
    if not (path / MANIFEST).exists() and not _is_bound(path, leases):
        (path / journal.PLAN).unlink(missing_ok=True)


def _stored_columns(
    path: Path, listings: list[tuple[str, dict[str, Any]]]
) -> tuple[str, ...] | None:
    """The columns of the stored parts; None if none is intact."""
    listed = (part for _, manifest in listings for part in manifest["parts"])
    for parts in (listed, journal.parts_of(path)):
        for part in parts:
            if is_part_intact(path, part):
                return tuple(pq.read_schema(path / part["name"]).names)
    return None


def is_legible(path: Path) -> bool:
    """Whether all listings of parts in a directory can be read."""
    try:
        _listings(path)
    except DataError:
        return False
    return True


def reopen(path: Path) -> None:
    """Removes everything of a directory except the identity with which it was begun.

    That identifies a policy which was not saved, and to which later steps refer.
    """
    kept, listings = path / "_partial.json", _listings(path)
    if listings:
        begun = {name: v for name, v in listings[0][1].items() if name != "summary"}
        atomic.write_atomic(kept, seal({**begun, "parts": []}))
    for child in path.iterdir() if path.exists() else ():
        is_ours = child.name.startswith(("_", "part-"))
        if is_ours and child != kept:
            atomic.remove(child)


def _listings(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """The manifest and the listings of an incomplete directory, by file name."""
    names = [path / MANIFEST, *journal.listings(path)]
    return [(name.name, manifest) for name in names if (manifest := read_sealed(name))]

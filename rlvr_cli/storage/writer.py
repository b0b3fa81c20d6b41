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
from rlvr_cli.storage import atomic, fetched, journal, locks, rehearsal
from rlvr_cli.storage.leases import Leases
from rlvr_cli.storage.making import (
    LOCK,
    Making,
    Work as Work,
    begin as write_plan,
    leftovers,
)
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.records import is_intact as is_part_intact
from rlvr_cli.storage.shards import (
    ALL_PARTS,
    MANIFEST,
    Shards,
    Share,
    is_begun,
    read_sealed,
    seal,
)
from rlvr_cli.terminal import console

OnPart = Callable[[int, str], None]
DeferredTable = Callable[[], pa.Table]
_POLL_S = (0.02, 1.0)  # from one look for the parts of others to the next, at first and at most
_SAID_AFTER_S = 3.0


def write_shards(
    path: Path, plan: Plan, make: Callable[[int], pa.Table], **options: Any
) -> Shards | None:
    """`write_shards_streaming` of parts that are computed one by one, in order."""
    return write_shards_streaming(path, plan, lambda work: ((i, make(i)) for i in work), **options)


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
    make: Callable[[Work], Iterator[tuple[int, pa.Table | DeferredTable]]],
    *,
    share: Share = ALL_PARTS,
    summarise: Callable[[Shards], dict[str, Any]] = lambda shards: {},
    on_part: OnPart = lambda index, state: None,
    is_intact: Callable[[Shards], bool] | None = None,
) -> Shards | None:
    """Makes the parts of `path` that are missing or damaged, then its manifest.

    `make` is given the indices of those parts, each of which is this process' to make from when it
    is asked for, and yields each with its rows, in any order; or with a function that makes them,
    which another thread calls while `make` goes on to the next.

    Running it again resumes; on a complete directory it makes nothing. Another plan is refused.
    Several processes on one directory share its parts: each begins with its share, and goes on
    with what nobody who lives has taken. With a share this returns None if the parts that are left
    are in the hands of others; without one it waits for them. `on_part` hears of every part that
    is kept or written here, or rewritten (it was damaged).

    `is_intact` says of a complete directory whether what it holds besides its parts is intact; if
    not, all is written again. Such a directory is made by one process alone.
    """
    fetched.require_outside(path)
    begun, is_alone = resume(path, plan), is_intact is not None
    anew = False
    if is_intact and (path / MANIFEST).exists():
        anew = not is_intact(Shards.open(path))
    held = Leases(path, competes=not (share.fixed or is_alone))
    making = Making(path, begun, held, anew=anew)
    if not anew:
        making.look()
    told = _Told(on_part, share.of(plan.parts), making)
    is_done = all(i in making.done for i in (told.own if share.fixed else range(plan.parts)))
    if is_done and (path / MANIFEST).exists() and not leftovers(path):
        told.end()
        return Shards.open(path)
    if not is_done:
        for _, manifest in _listings(path):
            begun.require_behaviour(manifest, path)
    rehearsal.end()
    atomic.make_folder(path)
    with contextlib.ExitStack() as stack:
        if is_alone:
            stack.enter_context(locks.locked(path / LOCK))
        stack.callback(lambda: _take_back(path, held) if making.has_begun else None)
        stack.callback(held.close)
        held.open()
        making.begin()
        if resume(path, plan, held).fingerprint != begun.fingerprint:  # another process' plan
            begun, has_begun = resume(path, plan, held), making.has_begun
            making = told.making = Making(path, begun, held, anew=anew)
            making.has_begun = has_begun
        return _make_all(making, make, share, summarise, told, held)


def begin(path: Path, plan: Plan) -> None:
    """Begins a directory with this plan, unless it is begun."""
    if is_begun(path):
        return
    atomic.make_folder(path)
    write_plan(path, plan, uuid.uuid4().hex[:16])


def _make_all(
    making: Making,
    make: Callable[[Work], Iterator[tuple[int, pa.Table | DeferredTable]]],
    share: Share,
    summarise: Callable[[Shards], dict[str, Any]],
    told: "_Told",
    held: Leases,
) -> Shards | None:
    """Makes parts until all are there, or until those that are left are not for this process."""
    waiting = _Waiting(held)
    while True:
        work = Work(making, told.own, share.others(making.parts))
        if work:
            _write(making, make(work), told)
            assert all(index in making.done for index in work.taken), "a part was not made"
        held.sync()
        making.look()
        left = [index for index in range(making.parts) if index not in making.done]
        if not left and (shards := making.finish(summarise)) is not None:
            told.end()
            return shards
        leaves = share.count > 1 or not share.waits
        if share.fixed or (leaves and making.is_left_to_others(left)):
            told.end()
            return None
        waiting.wait(len(left))


def _write(
    making: Making, tables: Iterator[tuple[int, pa.Table | DeferredTable]], told: "_Told"
) -> None:
    """Writes each part and tells of it; deferred ones as soon as they are written."""
    waiting: deque[tuple[int, Future[None]]] = deque()

    def settle(*, wait: bool) -> None:
        while waiting and (wait or waiting[0][1].done()):
            index, part = waiting.popleft()
            part.result()
            told.written(index)

    with ThreadPoolExecutor(1, "writer") as writer:
        try:
            for index, table in tables:
                if callable(table):
                    waiting.append((index, writer.submit(_write_later, making, index, table)))
                    settle(wait=False)
                else:
                    making.put(index, table)
                    told.written(index)
        finally:  # also of a run that is interrupted, or whose engine fails
            settle(wait=True)


def _write_later(making: Making, index: int, make: DeferredTable) -> None:
    making.put(index, make())


class _Told:
    """What `on_part` has heard: of the parts of a share in order, but for those that come later."""

    def __init__(self, on_part: OnPart, own: range, making: Making) -> None:
        self.own, self.making, self._on_part = own, making, on_part
        self._noted = {index for index in range(making.parts) if making.is_noted(index)}
        self._kept = deque(index for index in own if index in making.done)
        self._told: set[int] = set()

    def written(self, index: int) -> None:
        while self._kept and self._kept[0] < index:
            self._tell(self._kept.popleft(), "kept")
        self._tell(index, "rewritten" if index in self._noted else "written")

    def end(self) -> None:
        """Tells of the parts of the share that were there, or that others made meanwhile."""
        for index in self.own:
            if index in self.making.done and index not in self._told:
                self._tell(index, "kept")

    def _tell(self, index: int, state: str) -> None:
        self._told.add(index)
        self._on_part(index, state)


class _Waiting:
    """Waits a little longer from one look to the next, as long as nothing changes."""

    def __init__(self, held: Leases) -> None:
        self._held, self._left, self._is_said = held, -1, False
        self._seconds, self._since = _POLL_S[0], time.monotonic()

    def wait(self, left: int) -> None:
        if left != self._left:
            self._left, self._seconds = left, _POLL_S[0]
        time.sleep(self._seconds)
        self._seconds = min(2 * self._seconds, _POLL_S[1])
        if not self._is_said and time.monotonic() - self._since > _SAID_AFTER_S:
            self._is_said = True
            who = " and ".join(name for _, name in self._held.others()) or "others"
            console.say(f"waiting for the parts that {who} took; what stops is taken over")


def resume(path: Path, plan: Plan, held: Leases | None = None) -> Plan:
    """The plan as `path` was begun; an error if that was of another plan, or of two versions.

    An earlier version may have begun it: then its parts are written as that version had them. A
    plan by which nothing was made, of a process that is dead, binds nobody.
    """
    listings = _listings(path)
    try:
        plans = [plan.continuing(manifest, path) for _, manifest in listings]
    except UsageError:
        if [name for name, _ in listings] == [journal.PLAN] and not _is_bound(path, held):
            return plan
        raise
    if len({begun.fingerprint for begun in plans}) > 1:
        raise UsageError(
            f"the shares of `{path}` were begun by versions of rlvr that store other options",
            "remove the directory, and make all shares with one version",
        )
    return replace(plans[0], begun_columns=_stored_columns(path, listings)) if plans else plan


def _is_bound(path: Path, held: Leases | None) -> bool:
    """Whether something was made of the directory, or another process is at it."""
    return any(journal.parts_of(path)) or any((held or Leases(path)).others())


def _take_back(path: Path, held: Leases) -> None:
    """Removes the plan if nothing came of it, so that the next command is free to choose."""
    if held.has_noted or journal.listings(path) != [path / journal.PLAN]:
        return
    if not (path / MANIFEST).exists() and not _is_bound(path, held):
        (path / journal.PLAN).unlink(missing_ok=True)


def _stored_columns(
    path: Path, listings: list[tuple[str, dict[str, Any]]]
) -> tuple[str, ...] | None:
    """The columns of the parts that are there; None without a part that is as it was written."""
    listed = (part for _, manifest in listings for part in manifest["parts"])
    for parts in (listed, journal.parts_of(path)):
        for part in parts:
            if is_part_intact(path, part):
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
    kept, listings = path / "_partial.json", _listings(path)
    if listings:
        begun = {name: v for name, v in listings[0][1].items() if name != "summary"}
        atomic.write_atomic(kept, seal({**begun, "parts": []}))
    for child in path.iterdir() if path.exists() else ():
        is_ours = child.name.startswith(("_", "part-"))
        if is_ours and child != kept:
            atomic.remove(child)


def _listings(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """The manifest and the listings of a half-made directory, by file name."""
    names = [path / MANIFEST, *journal.listings(path)]
    return [(name.name, manifest) for name in names if (manifest := read_sealed(name))]

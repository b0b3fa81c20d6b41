"""Writes the parts of a directory, which other processes may write at the same time.

_plan.json     the identity with which the directory was begun, created by one of them
_writer-*      the journal and the pulse of each process; _lease-* are further names of it
_complete.json the listing of all parts, just before it becomes _manifest.json
"""

import contextlib
import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pyarrow as pa

from rlvr_cli.storage import (
    atomic,
    encoding,
    journal,
    leases,
    locks,
    partial_completions,
    publishing,
)
from rlvr_cli.storage.journal import Part
from rlvr_cli.storage.leases import Leases
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.records import Records
from rlvr_cli.storage.shards import MANIFEST, Shards, read_sealed, seal

LOCK = "_lock"
_LEFTOVERS = (
    *(journal.PLAN, journal.COMPLETE, "_partial*.json", journal.PATTERN, leases.PATTERN),
    *("_tmp-*", f"{LOCK}*", partial_completions.PATTERN),
)


class PartWriter:
    """Claims parts, writes them, and completes the directory when all of them exist.

    With `overwrite` nothing is kept: every part is written, also over one that exists.
    """

    def __init__(self, path: Path, plan: Plan, held: Leases, *, overwrite: bool = False) -> None:
        self._path, self._plan, self._leases, self._overwrite = path, plan, held, overwrite
        self._records = Records(path, plan.fingerprint, held.path)
        self.done: dict[int, Part] = {}
        self.has_begun = False  # whether this process wrote the plan of the directory

    @property
    def parts(self) -> int:
        return self._plan.parts

    def is_noted(self, index: int) -> bool:
        """Whether a part was written before, even if it is damaged or gone now."""
        return index in self._records

    def begin(self) -> None:
        """Removes what dead processes were writing, and writes the plan of a new directory."""
        self._sweep()
        plan, tag = self._path / journal.PLAN, self._leases.nonce
        listings = journal.listings(self._path)
        if listings == [plan] and not self._is_own(plan):  # no part was written by it
            publishing.set_aside(plan, tag, self._is_own)
        if not journal.listings(self._path) and not (self._path / MANIFEST).exists():
            self.has_begun = begin(self._path, self._plan, tag)

    def refresh(self) -> None:
        """Adds to `done` all parts that are intact by now."""
        self._records.refresh()
        for index in range(self._plan.parts):
            if index not in self.done and (part := self._records.intact(index)):
                self.done[index] = part

    def claim(self, index: int) -> bool:
        """Whether to make a part here: it is missing, and no living process holds it."""
        if index in self.done or not self._leases.acquire(index):
            return False
        if self._overwrite or not os.path.lexists(self._path / journal.part_name(index)):
            return True
        for reread in (None, self._records.refresh_known, self._records.refresh):
            if reread:
                reread()
            if part := self._records.intact(index):
                self.done[index] = part
                self._leases.release(index)
                return False
        return True

    def write(self, index: int, table: pa.Table) -> None:
        """Writes a part; if another process did so meanwhile, this copy is discarded."""
        data = encoding.part(self._plan, index, table)
        part = {"name": journal.part_name(index), "rows": table.num_rows}
        part["sha256"] = hashlib.sha256(data).hexdigest()
        self._leases.note(part, self._plan.fingerprint)
        self._records.add(part)
        path, tag = self._path / part["name"], self._leases.nonce
        if self._overwrite:
            publishing.write_over(path, data, tag)
        else:
            while not publishing.write_new(path, data, tag):
                self._records.refresh()
                if other := self._records.intact(index):
                    part = other
                    break
                publishing.set_aside(
                    path, tag, lambda aside: self._records.identify(index, aside) is not None
                )
        self.done[index] = part
        self._leases.release(index)

    def is_left_to_others(self, left: list[int]) -> bool:
        """Whether living processes hold the parts that are left, or complete the directory."""
        return all(self._leases.is_held(index) for index in left or [self._plan.parts])

    def finish(self, summarise: Callable[[Shards], dict[str, Any]]) -> Shards | None:
        """The complete directory, with its manifest; None if another process completes it."""
        if not self._leases.acquire(self._plan.parts):
            return None
        parts = [self.done[index] for index in range(self._plan.parts)]
        if self._overwrite or not self._is_listed(MANIFEST, parts):
            draft = Shards(self._path, encoding.manifest(self._path, self._plan, parts))
            self._complete({**draft.manifest, "summary": summarise(draft)}, parts)
        tidy(self._path)
        manifest = read_sealed(self._path / MANIFEST)
        return None if manifest is None else Shards(self._path, manifest)

    def _complete(self, manifest: dict[str, Any], parts: list[Part]) -> None:
        """Publishes the manifest by a rename, the last thing that a kill may prevent."""
        listing, tag = self._path / journal.COMPLETE, self._leases.nonce
        is_first = publishing.write_new(listing, seal(manifest), tag)
        if self._overwrite or not (is_first or self._is_listed(journal.COMPLETE, parts)):
            publishing.write_over(listing, seal(manifest), tag)
        tidy(self._path, but=journal.COMPLETE)
        if not self._overwrite and self._is_listed(MANIFEST, parts):
            listing.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):  # another process renamed it
            os.rename(listing, self._path / MANIFEST)
        atomic.sync_folder(self._path)

    def _is_own(self, plan: Path) -> bool:
        listing = read_sealed(plan)
        return listing is not None and listing["fingerprint"] == self._plan.fingerprint

    def _is_listed(self, name: str, parts: list[Part]) -> bool:
        """Whether a listing of these parts exists."""
        listing = read_sealed(self._path / name)
        return listing is not None and listing["parts"] == parts

    def _sweep(self) -> None:
        """Removes what dead processes were writing."""
        names = self._path.glob("_tmp-*")
        if first := next(names, None):
            living = [nonce for nonce, _ in self._leases.others()]
            for stale in (first, *names):
                if not any(nonce in stale.name for nonce in living):
                    atomic.remove(stale)


def begin(path: Path, plan: Plan, tag: str) -> bool:
    """Writes the plan of a directory unless it has one; whether this call did."""
    listing = seal(encoding.manifest(path, plan, []))
    return publishing.write_new(path / journal.PLAN, listing, tag)


class PartQueue(Iterator[int]):
    """The parts for this process to make, its own share first.

    Each is claimed when it is taken. `share` is the part of its own share that is not done;
    another process may still claim some of it.
    """

    def __init__(self, writer: PartWriter, own: Iterable[int], others: Iterable[int]) -> None:
        self._writer, self._own, self._others = writer, deque(own), deque(others)
        self.share = [index for index in self._own if index not in writer.done]
        self._piece = max(1, len(self._own) // 4)
        self._next: list[int] = []
        self.claimed: list[int] = []

    def __next__(self) -> int:
        if self._next:
            return self._next.pop()
        for queue in (self._own, self._others):
            while queue:
                index = queue.popleft()
                if self._writer.claim(index):
                    self.claimed.append(index)
                    return index
        raise StopIteration

    def __bool__(self) -> bool:
        """Whether there is a part to make; if so, it is claimed."""
        self._next = self._next or [index for index in [next(self, None)] if index is not None]
        return bool(self._next)

    def batch(self) -> list[int]:
        """Several parts for an engine that works on many: its share, then a few of others."""
        batch: list[int] = []
        while (self._own or len(batch) < self._piece) and self:
            batch.append(next(self))
        return batch


def tidy(path: Path, *, but: str = "") -> None:
    """Removes what only an incomplete directory needs; a lock only if nobody holds it.

    Earlier versions left locks of the same names, which nobody holds.
    """
    for stale in leftovers(path):
        is_held = stale.name.startswith(LOCK) and locks.is_locked(stale)
        if stale.name != but and not is_held:
            with contextlib.suppress(OSError):
                atomic.remove(stale)


def leftovers(path: Path) -> list[Path]:
    """The temporary files of a directory that is not complete, or was not tidied."""
    names = (name for name in os.listdir(path) if name.startswith("_"))
    return [path / name for name in names if any(fnmatch(name, p) for p in _LEFTOVERS)]

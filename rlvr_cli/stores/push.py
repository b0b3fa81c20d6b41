"""Sends a directory to a store: the file that says that it is complete goes last.

1. `_pushing.json` says what will be sent; readers see that the place is incomplete.
2. Every file but the manifests goes, several at a time; then the manifests of shards.
3. The store's sizes are compared, `_pushed.json` is written, and `_pushing.json` removed.

What is there already, of a push that was cut, is not sent again.
"""

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rlvr_cli.errors import DataError, UsageError, UserError
from rlvr_cli.storage import journal, locks
from rlvr_cli.storage.shards import MANIFEST, Shards
from rlvr_cli.stores import listing as listings
from rlvr_cli.stores.listing import PUSHED, PUSHING, File, Listing, Tree
from rlvr_cli.stores.store import FileInfo, Store
from rlvr_cli.terminal import plural

OnBytes = Callable[[int], None]


@dataclass(frozen=True)
class Sent:
    """What a push or a pull did: files and bytes that went, files that were there already."""

    files: int
    bytes: int
    kept: int
    digest: str

    def said(self, verb: str) -> str:
        kept = f"{plural.of(self.kept, 'file')} there already" if self.kept else ""
        if not self.files:
            return f"nothing left to do, all {kept}"
        went = f"{verb} {plural.of(self.files, 'file')} of {self.bytes / 1e6:,.3g} MB"
        return f"{went}, {kept}" if kept else went


@dataclass(frozen=True)
class _There:
    """What is at a place before a push: its listings, and the files that the store lists."""

    pushed: Listing | None
    pushing: Listing | None
    files: dict[str, FileInfo]

    @property
    def others(self) -> dict[str, FileInfo]:
        return {name: file for name, file in self.files.items() if name not in (PUSHED, PUSHING)}

    @property
    def _tables(self) -> list[dict[str, File]]:
        listings = [listing for listing in (self.pushed, self.pushing) if listing]
        return [table for listing in listings for table in (listing.files, listing.before)]

    @property
    def listed(self) -> set[str]:
        """The names that earlier pushes sent, or replaced."""
        return {name for table in self._tables for name in table}

    def known(self, name: str) -> File:
        """What a file holds that is there; without a sha256 where that is not certain."""
        size = self.files[name].size
        recorded = [table[name] for table in self._tables if name in table]
        sums = {file.sha256 for file in recorded if file.size == size}
        return File(size, sums.pop() if len(sums) == 1 else "")


def read(folder: Path) -> Tree:
    """What is to be sent; an error if it is a directory that is being written, or half of one."""
    if folder.is_file():
        return listings.of_file(folder)
    _require_still(folder)
    return listings.of_folder(folder)


def push(
    tree: Tree,
    store: Store,
    *,
    update: bool = False,
    verify: bool = False,
    on_bytes: OnBytes = lambda count: None,
) -> Sent:
    """Uploads what was read; `update` overwrites other files, `verify` reads stored ones back."""
    store.require_files()
    if tree.folder.is_file():
        return _push_file(tree, store, update=update, on_bytes=on_bytes)
    there, files = _look(store), tree.listing.files
    is_same = there.pushed is not None and there.pushed.digest == tree.listing.digest
    if not is_same and not update:
        _refuse_other(tree, store, there)
    left = _left(tree, store, there, verify=verify)
    size = sum(files[name].size for name in left)
    on_bytes(tree.listing.size - size)
    sent = Sent(len(left), size, len(files) - len(left), tree.listing.digest)
    if is_same and not left:
        store.remove(PUSHING)
        return sent
    _begin(tree, store, there)
    for late in (False, True):
        phase = [name for name in left if (name.rpartition("/")[2] == MANIFEST) is late]
        _send(tree, store, phase, on_bytes)
    _finish(tree, store, there)
    return sent


def _push_file(tree: Tree, store: Store, *, update: bool, on_bytes: OnBytes) -> Sent:
    """Sends a file, which an object store has completely or not at all."""
    file, stored = tree.listing.files[""], store.file()
    if stored is None and store.files():
        raise DataError(f"`{store.shown}` is a folder", "name the file in it")
    if stored is not None:
        with TemporaryDirectory() as scratch:
            sha256 = _arrives(store, "", Path(scratch, "file")) if stored.size == file.size else ""
        if sha256 == file.sha256:
            return Sent(0, 0, 1, tree.listing.digest)
        if not update:
            raise _differs(tree, store, "")
    _send(tree, store, [""], on_bytes)
    return Sent(1, file.size, 0, tree.listing.digest)


def _require_still(folder: Path) -> None:
    """An error where there is no directory, or one that is being written or is half of one."""
    if not folder.is_dir():
        what = "is neither a file nor a folder" if folder.exists() else "does not exist"
        raise UsageError(f"`{folder}` {what}", "name a directory, a run, a policy or a file")
    lock = folder / "_lock"
    if locks.is_locked(lock) and (holder := locks.holder(lock)):
        holder.refuse(lock)
    if journal.listings(folder) and not (folder / MANIFEST).exists():
        Shards.open(folder)


def _look(store: Store) -> _There:
    if store.file():
        raise DataError(f"`{store.shown}` is a file", "name another place")
    files = store.files()
    read = {name: store.read(name) if name in files else None for name in (PUSHED, PUSHING)}
    pushed, pushing = (
        None if data is None else listings.parse(data, f"{store.shown}/{name}")
        for name, data in read.items()
    )
    return _There(pushed, pushing, files)


def _refuse_other(tree: Tree, store: Store, there: _There) -> None:
    """An error if the destination holds anything but a part of the upload."""
    files = tree.listing.files
    ours = there.pushing is not None and there.pushing.digest == tree.listing.digest
    if not there.others or ours:
        return
    names = sorted(there.others)
    differs = [name for name in names if name not in files or there.known(name) != files[name]]
    raise _differs(tree, store, f": {', '.join(differs[:3])}")


def _differs(tree: Tree, store: Store, names: str) -> UsageError:
    return UsageError(
        f"`{store.shown}` holds something else than `{tree.folder}`{names}",
        "choose another URL, or send what differs over it: the same command with `--update`",
    )


def _left(tree: Tree, store: Store, there: _There, *, verify: bool) -> list[str]:
    """The files that are not there as they are to be; with `verify` they are read back."""
    files = tree.listing.files
    same = [n for n, file in files.items() if n in there.others and there.known(n) == file]
    if verify:
        with TemporaryDirectory() as scratch:
            target = Path(scratch) / "file"
            same = [name for name in same if _arrives(store, name, target) == files[name].sha256]
    return [name for name in files if name not in set(same)]


def _arrives(store: Store, name: str, target: Path) -> str:
    store.get(name, target)
    return listings.sha256_of(target)


def _begin(tree: Tree, store: Store, there: _There) -> None:
    """Says what will be sent, before anything is; an error if another process says so too."""
    files = tree.listing.files
    before = {n: there.known(n) for n in there.others if there.known(n) != files.get(n)}
    data = Listing(files, before).sealed()
    if there.pushing is None and not store.create(PUSHING, data):
        raise _raced(tree, store)
    if there.pushing is not None:
        store.write(PUSHING, data)
    if there.pushed is not None:
        store.remove(PUSHED)


def _send(tree: Tree, store: Store, names: list[str], on_bytes: OnBytes) -> None:
    def one(name: str) -> None:
        path = tree.folder / name if name else tree.folder
        _require_state(path, tree.states[name], "since it was read")
        store.put(path, name)
        _require_state(path, tree.states[name], "while it was sent")

    with ThreadPoolExecutor(store.threads) as pool:
        try:
            for name, _ in zip(names, pool.map(one, names), strict=True):
                on_bytes(tree.listing.files[name].size)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _require_state(path: Path, state: tuple[int, int], since: str) -> None:
    if listings.state(path) != state:
        raise UserError(f"`{path}` has changed {since}", "push it again once it is written")


def _finish(tree: Tree, store: Store, there: _There) -> None:
    """Writes the listing that says that all is there, if the store says so too."""
    stored, files = store.files(), tree.listing.files
    lost = [n for n, file in files.items() if n not in stored or stored[n].size != file.size]
    data = store.read(PUSHING)
    is_ours = data is not None and listings.parse(data, PUSHING).digest == tree.listing.digest
    if not is_ours:
        raise _raced(tree, store)
    if lost:
        more = f" and {plural.of(len(lost) - 1, 'other file')}" if lost[1:] else ""
        raise UserError(
            f"`{store.shown}` does not have `{lost[0]}`{more} as sent from `{tree.folder}`",
            "run the command again; if the store takes no such name, rename it and add `--update`",
        )
    for name in there.listed & stored.keys() - files.keys():
        store.remove(name)
    store.write(PUSHED, tree.listing.sealed())
    with contextlib.suppress(UserError):  # it says the same
        store.remove(PUSHING)


def _raced(tree: Tree, store: Store) -> UserError:
    return UserError(
        f"another process writes to `{store.shown}`: `{tree.folder}` is incomplete there",
        "run the command again once that process has ended",
    )

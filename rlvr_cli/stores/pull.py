"""Downloads a URL: everything is compared with its sha256 before it gets its final name.

An incomplete copy is in the folder `.NAME-KEY.pulling` next to it; no file is fetched twice.
"""

import contextlib
import os
import posixpath
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from rlvr_cli.errors import DataError, UsageError, UserError
from rlvr_cli.storage import atomic, disk, images, locks, manifest as manifests
from rlvr_cli.storage.manifest import MANIFEST
from rlvr_cli.stores import listing as listings
from rlvr_cli.stores.listing import PUSHED, PUSHING, File, Listing
from rlvr_cli.stores.push import OnBytes, Sent
from rlvr_cli.stores.store import FileInfo, Store

_POLL_S = 0.1
_TRIES = 20  # to take a lock that nobody seems to hold


@dataclass(frozen=True)
class Remote:
    """The files to download by their names, and what shows that one of them changed.

    A single file has the empty name. `pushed` says that a push vouches for them.
    """

    store: Store
    files: dict[str, File]
    pushed: bool = False
    states: dict[str, str] = field(default_factory=dict)

    @property
    def is_file(self) -> bool:
        return "" in self.files

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files.values())

    @property
    def key(self) -> str:
        """Equal for equal content: of sizes and sha256, or of what the store says of a file."""
        known = {n: [f.size, f.sha256 or self.states.get(n, "")] for n, f in self.files.items()}
        own = [] if self.pushed else [self.store.shown]
        return atomic.digest_of([own, known])

    @property
    def digest(self) -> str:
        return Listing(self.files).digest

    def without(self, folders: tuple[str, ...]) -> "Remote":
        """All but the files in folders of these names."""
        kept = {n: f for n, f in self.files.items() if not set(n.split("/")[:-1]) & set(folders)}
        return Remote(self.store, kept, self.pushed, self.states)


def look(store: Store) -> Remote:
    """What is at a URL: the files that a complete push lists, else those that the store lists.

    An error where a push began and did not end, there or in a folder above, and where nothing is.
    """
    for outer in () if store.is_page else (store, *store.above()):
        inner = store.url.removeprefix(outer.url).strip("/")
        try:
            files = _pushed(outer, inner, store)
        except Incomplete:
            raise
        except UserError:
            if outer is store:
                raise
            break  # a bucket may let nobody read above
        if files:
            return Remote(store, files, pushed=True)
    return _unlisted(store)


def _pushed(outer: Store, inner: str, store: Store) -> dict[str, File]:
    """The files that a push to `outer` vouches for, by their names from `inner` on."""
    if data := outer.read(PUSHED):
        return listings.parse(data, f"{outer.shown}/{PUSHED}").under(inner)
    if data := outer.read(PUSHING):
        half = listings.parse(data, f"{outer.shown}/{PUSHING}")
        if half.under(inner) or Listing(half.before).under(inner):
            raise Incomplete(
                f"`{store.shown}` is incomplete: it is being pushed, or its push was interrupted",
                f"wait for it, or run the `rlvr push` again that sends `{outer.shown}`",
            )
    return {}


class Incomplete(DataError):
    """A push to a URL has begun and is not finished."""


def _unlisted(store: Store) -> Remote:
    if (file := store.file()) is not None:
        return Remote(store, {"": File(file.size, "")}, states={"": file.state})
    there = store.files()
    if not there:
        hint = "name a folder: patterns are for files on this machine" if "*" in store.url else ""
        raise DataError(f"there is nothing at `{store.shown}`", hint or "check the URL")
    listings.require_names(there)
    sums = _of_manifests(store, there)
    files = {name: File(file.size, sums.get(name, "")) for name, file in there.items()}
    return Remote(store, files, states={name: file.state for name, file in there.items()})


def _of_manifests(store: Store, there: dict[str, FileInfo]) -> dict[str, str]:
    """The sha256 of each part, as the manifests of a directory and of its images have it."""
    sums: dict[str, str] = {}
    for folder in ("", f"{images.FOLDER}/"):
        if folder + MANIFEST not in there:
            continue
        content = manifests.unseal(store.read(folder + MANIFEST) or b"") or {}
        with contextlib.suppress(KeyError, TypeError):
            sums |= {folder + part["name"]: part["sha256"] for part in content["parts"]}
    return sums


def pull(
    remote: Remote,
    target: Path,
    *,
    waits: bool = False,
    on_bytes: OnBytes = lambda count: None,
) -> Sent:
    """Fetches it to `target`, which is there once all of it is.

    One process at a time does so; another is refused, or `waits`.
    """
    staging = target.with_name(f".{target.name}-{remote.key[:12]}.pulling")
    atomic.make_folder(target.parent)
    with contextlib.ExitStack() as stack:
        if here := _here(remote, target, waits=waits):
            return here
        stack.enter_context(_alone(staging.with_name(f"{staging.name}.lock"), waits=waits))
        if here := _here(remote, target, waits=waits):  # another process fetched it meanwhile
            return here
        atomic.make_folder(staging)
        disk.require(staging, remote.size, f"`{remote.store.shown}`", spare=_used(staging))
        tree = staging / "tree"
        fetched = _fetch(remote, tree, staging, on_bytes)
        _publish(tree / "file" if remote.is_file else tree, target)
        shutil.rmtree(staging, ignore_errors=True)
    size = sum(remote.files[name].size for name in fetched)
    return Sent(len(fetched), size, len(remote.files) - len(fetched), remote.digest)


def _here(remote: Remote, target: Path, *, waits: bool) -> Sent | None:
    """That all is there already; None where nothing is, and an error where something else is."""
    if not target.exists() or _is_empty(target):
        return None
    if not holds(remote, target, by_content=not waits):
        raise UsageError(
            f"`{target}` holds something else than `{remote.store.shown}`",
            "choose another directory, or remove it",
        )
    return Sent(0, 0, len(remote.files), remote.digest)


@contextlib.contextmanager
def _alone(lock: Path, *, waits: bool) -> Iterator[None]:
    """Holds a lock; where another process does, an error, or `waits` for it."""
    free = 0
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(locks.locked(lock))
                break
            except UserError:
                free = 0 if locks.is_locked(lock) else free + 1
                if not waits or free > _TRIES:
                    raise
                time.sleep(_POLL_S)
        yield


def _publish(complete: Path, target: Path) -> None:
    try:
        if target.is_dir():
            target.rmdir()
        os.rename(complete, target)
        atomic.sync_folder(target.parent)
    except OSError as error:
        raise atomic.write_error(target, error) from error


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _used(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def holds(remote: Remote, target: Path, *, by_content: bool = False) -> bool:
    """Whether a path holds what was fetched; without `by_content` sizes are enough."""
    if remote.is_file is target.is_dir():
        return False
    for name, file in remote.files.items():
        path = target / name if name else target
        if not path.is_file() or path.stat().st_size != file.size:
            return False
        if by_content and file.sha256 != "" and listings.sha256_of(path) != file.sha256:
            return False
    return not by_content or all(file.sha256 for file in remote.files.values())


def _fetch(remote: Remote, tree: Path, scratch: Path, on_bytes: OnBytes) -> list[str]:
    """Downloads files that the tree lacks, each through `scratch`; returns their names."""

    def one(name: str) -> bool:
        path = tree / (name or "file")
        file = remote.files[name]
        if path.is_file() and path.stat().st_size == file.size and _is_right(path, file):
            return False
        atomic.make_folder(path.parent)
        _fetch_one(remote, name, path, scratch / f"arriving-{threading.get_ident()}")
        return True

    fetched = []
    with ThreadPoolExecutor(remote.store.threads) as pool:
        try:
            for name, is_new in zip(remote.files, pool.map(one, remote.files), strict=True):
                on_bytes(remote.files[name].size)
                if is_new:
                    fetched.append(name)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return fetched


def _fetch_one(remote: Remote, name: str, path: Path, arriving: Path) -> None:
    file = remote.files[name]
    try:
        for is_last in (False, True):
            remote.store.get(name, arriving)
            if arriving.stat().st_size == file.size and _is_right(arriving, file):
                break
            if is_last:
                raise _damaged(remote, name)
        atomic.sync_file(arriving)
        os.replace(arriving, path)
    except OSError as error:
        raise atomic.write_error(path, error) from error
    finally:
        arriving.unlink(missing_ok=True)


def _is_right(path: Path, file: File) -> bool:
    return not file.sha256 or listings.sha256_of(path) == file.sha256


def _damaged(remote: Remote, name: str) -> DataError:
    where = posixpath.join(remote.store.shown, name) if name else remote.store.shown
    if remote.pushed:
        return DataError(
            f"`{where}` is not as it was pushed",
            "send it again from where it was pushed: the same `rlvr push DIR URL` with --verify",
        )
    return DataError(f"`{where}` changed while it was fetched, or is damaged", "run it again")

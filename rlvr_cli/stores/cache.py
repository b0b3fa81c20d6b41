"""Local copies of what commands read from stores: each content once, whatever its URL.

A command looks at its URL each time it starts, so a store that changed is noticed; what is here
already is not fetched again. Everything may be removed at any time.
"""

import hashlib
import json
import os
from pathlib import Path

from rlvr_cli.errors import DataError
from rlvr_cli.runtime import distributed
from rlvr_cli.storage import atomic, fetched, manifest as manifests
from rlvr_cli.storage.manifest import MANIFEST
from rlvr_cli.stores import pull as pulling
from rlvr_cli.stores.push import Sent
from rlvr_cli.stores.store import Store

_RANKS = "RLVR_FETCHED"  # what the process that starts the others has fetched, by a hash of the URL
WEIGHTS = ("_checkpoint", "_weights")


def local(url: str, *, weights: bool = True) -> tuple[Path, Sent | None]:
    """The local copy of a URL, and what was fetched for it; None if nothing was.

    Without `weights` the checkpoints of a run or of an update are left out.
    """
    known = json.loads(os.environ.get(_RANKS, "{}"))
    key = hashlib.sha256(f"{weights} {url}".encode()).hexdigest()
    if distributed.is_launched() and key in known and Path(known[key]).exists():
        return Path(known[key]), None
    remote = pulling.look(Store(url))
    if not weights:
        remote = remote.without(WEIGHTS)
    if not remote.files:
        raise DataError(f"`{remote.store.shown}` holds only checkpoints", "name them with --model")
    path, sent = _in_cache(remote)
    os.environ[_RANKS] = json.dumps({**known, key: str(path)})
    return path, sent


def _in_cache(remote: pulling.Remote) -> tuple[Path, Sent | None]:
    entry = fetched.folder() / remote.key[:32]
    path = entry / remote.store.name
    if path.exists():
        if pulling.holds(remote, path):
            fetched.keep(entry, remote.store.url, _digest(path))
            return path, None
        atomic.remove(path)
    atomic.make_folder(entry)
    sent = pulling.pull(remote, path, waits=True)
    fetched.keep(entry, remote.store.url, _digest(path))
    return path, sent


def _digest(path: Path) -> str | None:
    """The digest of a directory of shards; None of anything else."""
    if not (path / MANIFEST).is_file():
        return None
    digest = (manifests.unsealed(path / MANIFEST) or {}).get("digest")
    return digest if isinstance(digest, str) else None

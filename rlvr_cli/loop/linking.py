"""Hard links from the files of a run to those of another.

Nothing is written twice, and each run is complete without the other: the bytes stay as long as one
of them links to them. Small files with relative paths to something outside of the run are written
again if the path differs.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError, UserError
from rlvr_cli.models import lora
from rlvr_cli.models.checkpoints import CHECKPOINT, WEIGHTS
from rlvr_cli.storage import atomic, images, moved
from rlvr_cli.storage.shards import MANIFEST, Shards, seal


class Links:
    """Links directories of the run `source` into others; with `copy`, copies what cannot be linked.

    `shared` and `copied` count the bytes that were linked and copied; each file is copied once,
    however many runs share it.
    """

    def __init__(self, source: Path, *, copy: bool) -> None:
        self._source, self._copy = Path(os.path.abspath(source)), copy
        self._copies: dict[str, Path] = {}
        self.shared = self.copied = 0

    def shards(self, inner: Path, target: Path, final: Path, source: Path | None = None) -> bool:
        """Links a directory of shards, and the policy in it, if it is complete; whether it is.

        `inner` is its path in the run, `target` the temporary folder of the new run, and `final`
        the path of that run. `source` is another run that has the same files.
        """
        here, there = (source or self._source) / inner, target / inner
        try:
            shards = Shards.open(here)
        except DataError:
            return False
        if not all((here / part["name"]).is_file() for part in shards.manifest["parts"]):
            return False
        there.mkdir(parents=True, exist_ok=True)
        for part in shards.manifest["parts"]:
            self._file(here / part["name"], there / part["name"])
        for policy in (CHECKPOINT, WEIGHTS):
            try:
                self._policy(inner / policy, target, final)
            except FileNotFoundError:  # the run is being trained, and pruned it meanwhile
                atomic.remove(there / policy)
        if images.KIND in shards.manifest["parents"]:
            self.shards(inner / images.FOLDER, target, final, source)
        self._manifest(shards, there / MANIFEST, inner, final)
        return True

    def folder(self, inner: Path, target: Path) -> None:
        """Links the files of a folder, if it exists."""
        for file in sorted((self._source / inner).rglob("*")):
            if file.is_file():
                there = target / file.relative_to(self._source)
                there.parent.mkdir(parents=True, exist_ok=True)
                self._file(file, there)

    def _policy(self, inner: Path, target: Path, final: Path) -> None:
        self.folder(inner, target)
        base = self._source / inner / lora.BASE
        if base.exists():
            recorded = json.loads(base.read_text())
            policy = self._seen(recorded["policy"], recorded["digest"], inner, final)
            if policy != recorded["policy"]:
                (target / inner / lora.BASE).unlink()
                content = atomic.pretty_json({**recorded, "policy": policy})
                atomic.write_atomic(target / inner / lora.BASE, content)

    def _manifest(self, shards: Shards, there: Path, inner: Path, final: Path) -> None:
        manifest = shards.manifest
        parents = {
            role: {**parent, "path": self._seen(parent["path"], parent["digest"], inner, final)}
            for role, parent in manifest["parents"].items()
        }
        paths = {
            role: self._seen(path, "", inner, final) for role, path in manifest["paths"].items()
        }
        if (parents, paths) == (manifest["parents"], manifest["paths"]):
            self._file(shards.path / MANIFEST, there)
        else:
            data: dict[str, Any] = {**manifest, "parents": parents, "paths": paths}
            atomic.write_atomic(there, seal(data))

    def _seen(self, path: str, digest: str, inner: Path, final: Path) -> str:
        """A path that a directory of the run stores, as that of the new run stores it."""
        if not path.startswith(os.pardir):
            return path
        place = Path(os.path.normpath(self._source / inner / path))
        if place.is_relative_to(self._source):
            return path
        if not place.exists():
            real = Path(os.path.realpath(self._source / inner / path))
            place = moved.place(digest) or (real if real.exists() else place)
        return os.path.relpath(place, final / inner)

    def _file(self, source: Path, target: Path) -> None:
        real = os.path.realpath(source)
        size = os.stat(real).st_size
        try:
            os.link(self._copies.get(real, real), target)
            self.shared += size
        except FileExistsError:
            raise
        except OSError as error:
            if not self._copy:
                raise _cannot_share(source, target, error, self._size()) from error
            shutil.copyfile(real, target)
            self._copies[real] = target
            self.copied += size

    def _size(self) -> int:
        return sum(file.stat().st_size for file in self._source.rglob("*") if file.is_file())


def _cannot_share(source: Path, target: Path, error: OSError, size: int) -> UserError:
    reason = os.strerror(error.errno) if error.errno else str(error)
    return UserError(
        f"`{source}` cannot be shared with `{target.parent}` by a hard link: {reason}",
        f"choose an --out on the file system of the run, or add `--copy`: at most "
        f"{size / 1e6:,.0f} MB are copied, once for all branches",
    )

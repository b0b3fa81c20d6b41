"""The new paths of directories that moved since others were computed from them.

A directory records its parents by relative path and by digest. Options such as `--prompts DIR` say
where one is now, and a run does so for its own prompts. A directory there counts as the parent
only if it has the recorded digest.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from rlvr_cli.storage import fetched

KINDS = ("prompts", "rollouts", "scores", "advantages", "logprobs")
_places: dict[str, Path] = {}  # by digest
_used: set[str] = set()
_ANCESTORS = 6  # folders above a directory in which its parents are looked for


@contextlib.contextmanager
def forgotten() -> Iterator[None]:
    """Forgets, at the end of the block, what was remembered in it."""
    before = dict(_places)
    try:
        yield
    finally:
        _places.clear()
        _places.update(before)
        _used.clear()


def remember(digest: str, path: Path) -> None:
    """Records the place of the directory with a digest, for this process."""
    _places[digest] = path


def place(digest: str) -> Path | None:
    """The recorded place of the directory with a digest; None where there is none."""
    _used.add(digest)
    return _places.get(digest)


def is_used(digest: str) -> bool:
    """Whether the directory of a digest is the parent of something that was looked at."""
    return digest in _used


def places(child: Path, recorded: str, digest: str) -> Iterable[Path]:
    """Where a parent may be: the place named for it, then the one that the child records.

    A recorded path is tried as written, then with its links resolved. A URL is no path: a copy of
    it may have been fetched before.
    """
    if known := place(digest):
        yield known
    yield Path(os.path.normpath(child / recorded))
    yield Path(os.path.realpath(child / recorded))
    yield from fetched.with_digest(digest)


def nearby(child: Path, recorded: str) -> Iterator[Path]:
    """Where a missing parent may be: its name in the folders above, and in this one."""
    name, above = Path(recorded).name, child.absolute().parents
    for folder in dict.fromkeys((Path(), *above[:_ANCESTORS])):
        yield folder / name

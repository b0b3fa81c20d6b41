"""The URLs of directories in the cache, by which manifests record them; nothing is fetched here.

stores/KEY/origin.json     the URL, and the digest of a directory of shards
stores/KEY/NAME            what was fetched; it is complete once it exists
"""

import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.storage import atomic, user_cache
from rlvr_cli.terminal import escape

ORIGIN = "origin.json"


def folder() -> Path:
    """The cache of what was fetched; it may be removed at any time."""
    return user_cache.folder() / "stores"


def keep(entry: Path, url: str, digest: str | None) -> None:
    """Notes where an entry of the cache comes from, without the secrets of its URL."""
    origin = {"url": escape.redacted(url), "digest": digest}
    atomic.write_atomic(entry / ORIGIN, atomic.pretty_json(origin))


def recorded(path: Path) -> str | None:
    """The URL of a path in the cache; None of any other path."""
    try:
        inner = Path(os.path.abspath(path)).relative_to(os.path.abspath(folder())).parts
    except ValueError:
        return None
    if len(inner) < 2 or (origin := _read(folder() / inner[0])) is None:
        return None
    return "/".join((origin["url"], *inner[2:]))


def require_outside(path: Path) -> None:
    """An error where a command would write into the cache, next to a copy that it reads."""
    if recorded(path):
        raise UsageError(
            f"`{path}` would be in the cache of what was fetched from a store",
            f"name what to make with --out, as in `--out {shlex.quote(path.name)}`",
        )


def copy_of(url: str) -> Path | None:
    """The newest copy of a URL in the cache; None where there is none."""
    copies = []
    for origin in folder().glob(f"*/{ORIGIN}"):
        outer = (_read(origin.parent) or {}).get("url", "")
        if outer and f"{url}/".startswith(f"{outer}/"):
            name = outer.rpartition("/")[2].partition("@")[0]
            path = origin.parent / name / url.removeprefix(outer).lstrip("/")
            copies += [(origin.stat().st_mtime_ns, path)] if path.exists() else []
    return max(copies)[1] if copies else None


def named_from(path: Path, directory: Path) -> str:
    """How a directory records the place of another: its URL, or its relative path."""
    return recorded(path) or os.path.relpath(path, directory)


def is_url(recorded: str) -> bool:
    """Whether what a directory or a configuration names is in a store."""
    return re.match(r"[A-Za-z][\w+.:-]+://", recorded) is not None


def joined(directory: Path, recorded: str) -> str:
    """The path, or the URL, that a directory records of another."""
    return recorded if is_url(recorded) else os.path.normpath(directory / recorded)


def not_fetched(path: Path) -> DataError | None:
    """The error about a URL that a configuration or a directory names; None of a path.

    As a `Path` it has lost one of its slashes.
    """
    if (match := re.match(r"([A-Za-z][\w+.-]+):/+(?=[^/])", str(path))) is None:
        return None
    url = escape.redacted(f"{match[1]}://{str(path)[match.end() :]}")
    return DataError(
        f"`{url}` is in a store, and only what the command line itself names is fetched",
        f"name it there, or bring it here: `rlvr pull {shlex.quote(url)} DIR`",
    )


def relative_url(path: Path, relative: str) -> str | None:
    """The URL of a path relative to something that was fetched; None of what was not."""
    url = recorded(path)
    if url is None or os.path.isabs(relative) or "://" in relative:
        return None
    scheme, _, rest = url.partition("://")
    place = os.path.normpath(f"{rest}/{relative}")
    return None if place.startswith(os.pardir) or "/" not in place else f"{scheme}://{place}"


def with_digest(digest: str) -> Iterator[Path]:
    """The directories of shards in the cache that had this digest when they were fetched."""
    for origin in sorted(folder().glob(f"*/{ORIGIN}")):
        if (_read(origin.parent) or {}).get("digest") == digest:
            yield from (path for path in origin.parent.iterdir() if path.is_dir())


def _read(entry: Path) -> dict[str, str] | None:
    try:
        origin = json.loads((entry / ORIGIN).read_text())
        return origin if isinstance(origin["url"], str) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None

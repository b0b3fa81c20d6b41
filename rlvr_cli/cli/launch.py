"""The processes of a command, and the share of this one."""

import sys
from pathlib import Path
from typing import Any

import typer

from rlvr_cli.errors import UsageError
from rlvr_cli.runtime import distributed


def spawn(nproc: int, given: str | list[str] | None = None, path: Path | None = None) -> None:
    """Runs this command in so many processes and ends this one, unless it is one of them already.

    `given` are the arguments of a source whose `path` is known now: only this process has its
    stdin.
    """
    from rlvr_cli.runtime import launcher, nodes

    place, options = distributed.current(), nodes.options()
    if distributed.is_launched() or (place.size > 1 and options.count == 1):
        return _require_as_launched(place, nproc)
    if nproc * options.count == 1:
        return None
    words = sys.argv[1:]
    if path is not None and given in (None, "-", [], ["-"]):
        words = [word for word in words if word != "-"] + [str(path)]
    raise typer.Exit(launcher.spawn(nproc, words, options))


def _require_as_launched(place: distributed.World, nproc: int) -> None:
    """An error if --nproc asks for other processes than those that another launcher started."""
    if nproc not in (1, place.local_size) and place.size > 1:
        here = f"{place.local_size or 'an unknown number of'} on this machine"
        raise UsageError(
            f"--nproc is {nproc}, and {place.size} processes were started already, {here}",
            "leave --nproc out; or, where one command a node was started, add --nnodes "
            f"{place.size}",
        )


def share(shard: str) -> Any:
    """The requested share, or else that of this process among those that were started."""
    from rlvr_cli.storage.share import ALL_PARTS, Share

    requested, place = Share.parse(shard), distributed.current()
    if place.size == 1:
        return requested
    if requested != ALL_PARTS:
        raise UsageError(
            f"--shard is {shard}, and {place.size} processes were started",
            "leave one of the two out",
        )
    return Share.of_process(place.rank, place.size)

"""What a command reads: paths that were given, or that the command before in a pipe printed."""

import sys
from pathlib import Path
from typing import Any

from rlvr_cli.cli import placing
from rlvr_cli.errors import UsageError
from rlvr_cli.runtime import several, stdin
from rlvr_cli.terminal import console, escape, plural


def source(given: str | None) -> Path:
    """The path that was given, or the one that the command before in the pipe printed."""
    if given not in (None, "-"):
        return Path(str(given))
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("no directory was given", "name one, or pipe its path in")
    return _only_path(stdin.split(sys.stdin.read()), "the path of one directory was expected")


def directories(
    given: list[str] | None, kind: str, out: Path | None, name: str
) -> tuple[Any, Path]:
    """The given directories read as one, and the output: `out`, or `name` next to a single one."""
    from rlvr_cli.storage import joined

    if given and len(given) > 1 and "-" in given:
        raise UsageError("`-` is one of several directories", "name them all")
    paths = [source(one) for one in given] if given else [source(None)]
    opened = joined.opened(paths, kind)
    if len(paths) > 1 and out is None:
        raise UsageError(
            f"{len(paths)} directories are given, and the output has no default place",
            f"say where it goes, as in `--out mixed/{name}`",
        )
    return opened, out or paths[0].parent / name


def moved_to(given: list[Path] | None, kind: str, source: Any) -> Path | None:
    """The new place of the parent of one directory; of several it is recorded by its digest."""
    from rlvr_cli.storage import moved
    from rlvr_cli.storage.shards import Shards

    if given and len(given) == len(source.inputs) == 1:
        return given[0]
    for path in given or ():
        moved.remember(Shards.open(path, kind).digest, path)
    return None


def files(given: list[str] | None) -> Path:
    """What was given as one path; of stdin the path that it holds, or else the rows."""
    if given and given != ["-"]:
        return several.together(once(list(map(Path, given))))
    if stdin.is_terminal():
        raise UsageError("no directory was given", "name one or files, or pipe rows in")
    lines = stdin.lines()
    if lines is None:
        console.reads(stdin.DASH)
        return stdin.DASH
    return _only_path(lines, "the path of one directory or rows were expected")


def _only_path(lines: list[str], expected: str) -> Path:
    """The path on the one line of stdin, which is then an input of the command."""
    if len(lines) != 1:
        raise UsageError(
            f"stdin holds {plural.of(len(lines), 'line')}, {expected}",
            "name the directory, or look at what the command before printed on stderr",
        )
    if "\0" in lines[0]:
        raise UsageError(
            f"stdin holds a NUL character, {expected}",
            "name one directory a command, as in `find ... -print0 | xargs -0 -n 1 rlvr check`",
        )
    console.reads(escape.redacted(lines[0]))
    stdin.holds_path(escape.redacted(lines[0]))
    return Path(placing.read(lines[0]))


def once(paths: list[Path]) -> list[Path]:
    """These paths; an error if several are stdin, which is read once."""
    if paths.count(stdin.DASH) > 1:
        raise UsageError("`-` is named twice, and stdin holds one source", "name the other's file")
    return paths

"""Several paths as one, where a command takes one source."""

import shlex
from collections.abc import Sequence
from pathlib import Path, PosixPath


class Several(PosixPath):
    """Paths in their order; it reads like their list, and no file has its name."""

    paths: tuple[Path, ...]


def pasted(path: Path) -> str:
    """The path, or each of several, as a command line has it."""
    paths = path.paths if isinstance(path, Several) else (path,)
    return " ".join(shlex.quote(str(one)) for one in paths)


def together(paths: Sequence[Path]) -> Path:
    """One path that stands for these."""
    if len(paths) == 1:
        return paths[0]
    several = Several(", ".join(map(str, paths)))
    several.paths = tuple(paths)
    return several

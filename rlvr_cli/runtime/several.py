"""Several paths as one, for commands that take one source."""

from collections.abc import Sequence
from pathlib import Path, PosixPath


class Several(PosixPath):
    """Paths in their order; it reads like their list, and no file has its name."""

    paths: tuple[Path, ...]


def together(paths: Sequence[Path]) -> Path:
    """One path that represents these."""
    if len(paths) == 1:
        return paths[0]
    several = Several(", ".join(map(str, paths)))
    several.paths = tuple(paths)
    return several

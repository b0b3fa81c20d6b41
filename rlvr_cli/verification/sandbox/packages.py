"""What a sandbox shows of the packages that programs may import."""

import contextlib
import os
import re
from dataclasses import dataclass, replace
from importlib import metadata

AUTO = "auto"  # those of _USUAL that are installed
_USUAL = ("networkx", "numpy", "scipy", "sortedcontainers", "sympy")


@dataclass(frozen=True)
class Packages:
    """The folders of packages, where an interpreter finds them, and their modules."""

    folders: tuple[str, ...] = ()  # files, where a package is a module
    paths: tuple[str, ...] = ()  # for sys.path
    tops: tuple[str, ...] = ()  # what may be imported from there
    modules: tuple[str, ...] = ()  # of these what is imported beforehand: what was named
    versions: tuple[str, ...] = ()


def find(names: tuple[str, ...]) -> Packages:
    """The distributions of these names, and what they depend on; ValueError if one is missing.

    `auto` means those that programs for contests import, as far as they are installed. They
    are not imported beforehand: most programs need none.
    """
    usual = [name for name in _USUAL if AUTO in names and _is_installed(name)]
    named = tuple(name for name in names if name != AUTO)
    return replace(_find((*named, *usual)), modules=_find(named).modules)


def _is_installed(name: str) -> bool:
    """Whether a distribution is installed with all that it needs."""
    with contextlib.suppress(ValueError):
        return bool(_find((name,)))
    return False


def _find(names: tuple[str, ...]) -> Packages:
    distributions: dict[str, metadata.Distribution] = {}
    waiting = [(name, "") for name in names]
    while waiting:
        name, needed_by = waiting.pop()
        if _normal(name) in distributions:
            continue
        try:
            distributions[_normal(name)] = distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            needed = f", which {needed_by} needs" if needed_by else ""
            raise ValueError(f"the package {name}{needed} is not installed here") from None
        waiting += [(requirement, name) for requirement in _requirements(distribution)]
    tops = {name: _tops(distribution) for name, distribution in distributions.items()}
    for name in names:
        if not tops[_normal(name)]:
            raise ValueError(f"the package {name} has no files of its own here (is it editable?)")
    folders = [top for each in tops.values() for top in each]
    named = [top for name in names for top in tops[_normal(name)]]
    return Packages(
        folders=tuple(folders),
        paths=tuple(dict.fromkeys(os.path.dirname(folder) for folder in folders)),
        tops=_modules(folders),
        modules=_modules(named),
        versions=tuple(sorted(f"{name} {d.version}" for name, d in distributions.items())),
    )


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _requirements(distribution: metadata.Distribution) -> list[str]:
    """The names that a distribution depends on here, without its extras."""
    from packaging.requirements import Requirement

    requirements = [Requirement(line) for line in distribution.requires or []]
    return [r.name for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})]


def _tops(distribution: metadata.Distribution) -> list[str]:
    """The folders and modules that a distribution has on the path of the interpreter."""
    root = os.path.realpath(str(distribution.locate_file("")))
    tops = {file.parts[0] for file in distribution.files or [] if file.parts[0] != ".."}
    paths = (os.path.join(root, top) for top in sorted(tops))
    return [path for path in paths if os.path.isdir(path) or path.endswith((".py", ".so"))]


def _modules(paths: list[str]) -> tuple[str, ...]:
    """The names under which folders and files are imported."""
    names = (os.path.basename(path) for path in paths)
    stems = (name.partition(".")[0] for name in names if not name.endswith((".libs", ".dist-info")))
    return tuple(dict.fromkeys(stem for stem in stems if stem.isidentifier()))

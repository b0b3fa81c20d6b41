"""Code of the user's own: functions of files, and names that installed packages offer.

A file is code where a spec names a function of it, `mine.py:build`. It runs only if trust.py says
that it may. An installed package offers names by entry points of the groups `rlvr.NAME`,
as in `rlvr.objectives`: installing it was the explicit act.
"""

import ast
import functools
import hashlib
import importlib.util
import shlex
import sys
import traceback
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlvr_cli.errors import DataError, UsageError, UserError, first_line
from rlvr_cli.specs import trust

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_CHANGED = "bring that file back, or write its results again in another directory"


@dataclass(frozen=True)
class Code:
    """Code outside rlvr that a spec names: the object, its origin and its version.

    `origin` is `sha256-...` of a file, and `DISTRIBUTION==VERSION` of an installed package.
    """

    value: Any
    module: types.ModuleType
    origin: str


# Files.


def read(path: Path | str, what: str = "the file") -> bytes:
    try:
        return trust.real(path).read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise DataError(f"cannot read {what} `{path}`: {why}", "check the path") from error


def pinned(path: str, sha256: str, what: str) -> tuple[str, bytes]:
    """The real path of a trusted file and its content; with a `sha256` only of that content.

    The trusted file of that name and content is meant then, wherever it is.
    """
    if not sha256:
        real, source = trust.require_code(path), read(path, what)
        trust.require_unchanged(real, source)
        return str(real), source
    real = _find(path, f"sha256-{sha256}", "")
    source = read(real, what)
    _require_digest(path, source, f"sha256-{sha256}")
    return str(real), source


def _require_digest(path: str, source: bytes, origin: str) -> None:
    if digest(source) != origin:
        raise DataError(
            f"`{path}` has changed: it is {digest(source)[:19]}..., and {origin[:19]}... was used",
            _CHANGED,
        )


def digest(source: bytes) -> str:
    return f"sha256-{hashlib.sha256(source).hexdigest()}"


def of_file(path: str, function: str, *, origin: str = "", named_by: str = "") -> Code:
    """A function of a trusted file; with an `origin` of the file that had that digest.

    A spec that was stored names a file without its folder. The trusted file of that name and
    digest is meant then, wherever it is.
    """
    if not function:
        raise UsageError(f"`{path}` names no function", f"write `{path}:FUNCTION`")
    real = _find(path, origin, named_by) if origin else trust.require_code(path, named_by=named_by)
    source = read(real if origin else path)
    if origin:
        _require_digest(path, source, origin)
    else:
        trust.require_unchanged(real, source)
    module = _run(real, source)
    if not hasattr(module, function):
        raise UsageError(f"`{path}` has no function `{function}`", f"it has {functions(module)}")
    return Code(getattr(module, function), module, digest(source))


def _find(path: str, origin: str, named_by: str) -> Path:
    """The trusted file that a stored spec means; one of its name if none has its digest."""
    same = [p for p in trust.files() if p.name == Path(path).name and p.is_file()]
    if not same:
        return trust.require_code(path, named_by=named_by)
    return next((p for p in same if digest(p.read_bytes()) == origin), same[0])


def functions(module: types.ModuleType) -> str:
    """The names of what a module defines itself, for a hint."""
    own = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__]
    return ", ".join(f"`{name}`" for name in own) or "none"


@functools.cache
def _run(path: Path, source: bytes) -> types.ModuleType:
    """The module of a file, run once a process for each content."""
    module = types.ModuleType(f"rlvr_file_{path.stem}_{digest(source)[7:19]}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses look there
    try:
        exec(compile(source, path, "exec"), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        raise UsageError(
            f"`{path}` cannot be run: {type(error).__name__}: {first_line(error)}",
            f"`python {shlex.quote(str(path))}` shows where",
        ) from error
    return module


def blamed(error: BaseException) -> str:
    """Where an error was raised, as `FILE line N`, if that is in a file of the user's own."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if Path(f.filename) in trust.files()]
    return f"`{own[-1].filename}` line {own[-1].lineno}" if own else ""


def raised_at(error: BaseException) -> str:
    """Where an error was raised in a file of the user's own, as ` (FILE line N)`; empty if not."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if Path(f.filename) in trust.files()]
    return f" ({Path(own[-1].filename).name} line {own[-1].lineno})" if own else ""


def is_builder(path: str, function: str) -> bool:
    """Whether a function of a file takes only options; the file is not run.

    A builder's parameters are all keyword-only: `def build(*, alpha: float = 1.0)`. Of a file
    that may not run this is not known: False.
    """
    if trust.real(path) not in trust.files():
        return False
    try:
        tree = ast.parse(read(path))
    except (DataError, SyntaxError, ValueError):
        return False
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == function]
    arguments = [n.args for n in functions]
    return bool(functions) and not any(a.args or a.posonlyargs or a.vararg for a in arguments)


# Installed packages.


@dataclass(frozen=True)
class Offer:
    """A name that an installed distribution offers."""

    name: str
    origin: str  # as in `mypackage==1.0`
    entry: "EntryPoint"

    def load(self) -> Code:
        try:
            value = self.entry.load()
        except Exception as error:
            raise UsageError(
                f"`{self.name}` of {self.origin} cannot be imported: "
                f"{type(error).__name__}: {first_line(error)}",
                f"`python -c 'import {self.entry.module}'` shows where",
            ) from error
        return Code(value, sys.modules[self.entry.module], self.origin)

    def summary(self) -> str:
        """The first line of its docstring, read from the file if it exists."""
        try:
            module = importlib.util.find_spec(self.entry.module)
            tree = (
                ast.parse(read(module.origin)) if module and module.origin else ast.Module([], [])
            )
        except (ImportError, SyntaxError, ValueError, UserError) as error:
            return f"cannot be imported: {first_line(error)}"
        named = [n for n in tree.body if getattr(n, "name", None) == self.entry.attr]
        nodes: list[Any] = [n for n in named if isinstance(n, ast.FunctionDef | ast.ClassDef)]
        texts: Iterator[str] = (ast.get_docstring(node) or "" for node in [*nodes, tree])
        return next(filter(None, texts), "").partition("\n")[0]


def offers(kind: str) -> dict[str, list[Offer]]:
    """What the installed distributions offer of a kind, such as `objectives`, by name."""
    from importlib import metadata  # slow to import, and rarely needed

    offered: dict[str, list[Offer]] = {}
    for entry in sorted(metadata.entry_points(group=f"rlvr.{kind}"), key=lambda e: e.name):
        origin = f"{entry.dist.name}=={entry.dist.version}" if entry.dist else entry.value
        offered.setdefault(entry.name, []).append(Offer(entry.name, origin, entry))
    return offered


def of_package(offered: list[Offer], *, origin: str = "") -> Code:
    """What a name of installed packages is; an error if two offer it or its version is another."""
    first = offered[0]
    if len(offered) > 1:
        listed = " and ".join(offer.origin for offer in offered)
        raise UsageError(
            f"`{first.name}` is offered by {listed}",
            f"keep one: `pip uninstall {offered[-1].origin.partition('==')[0]}`",
        )
    if origin not in ("", first.origin):
        raise DataError(
            f"`{first.name}` is that of {first.origin}, and {origin} was used",
            f"`pip install {shlex.quote(origin)}`, or write its results again in another directory",
        )
    return first.load()

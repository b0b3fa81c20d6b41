"""The names that a Python text defines, and those that it takes from elsewhere."""

import ast
import builtins
import functools
import itertools
from collections.abc import Collection
from dataclasses import dataclass

from rlvr_cli.verification.parsing import fences

_BUILTINS = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__"}
_READS = {"input", "stdin", "fileinput"}


@dataclass(frozen=True)
class Names:
    """What is known of a Python text without running it."""

    defines: frozenset[str]  # by `def`, `class` or an assignment, at its top
    imports: frozenset[str]
    needs: frozenset[str]  # read somewhere, bound nowhere, and not built in
    shows: bool  # whether it prints or calls something when it is run, and not only defines
    reads: bool  # whether it looks at its input
    stubs: frozenset[str]  # functions that it only announces, as with `...`

    @property
    def has_definitions(self) -> bool:
        return bool(self.defines - self.stubs)


_NONE: frozenset[str] = frozenset()
UNKNOWN = Names(_NONE, _NONE, _NONE, shows=False, reads=False, stubs=_NONE)


@functools.lru_cache(maxsize=256)
def of(text: str) -> Names | None:
    """The names of a text; None if it is no Python."""
    try:
        tree = fences.parsed(text)
        return _of(tree)
    except (SyntaxError, RecursionError):
        return None


def _of(tree: ast.Module) -> Names:
    defines: set[str] = set()
    stubs: set[str] = set()
    imports: set[str] = set()
    shows = False
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            is_stub = _is_stub(node)
            (stubs if is_stub else defines).add(node.name)
            if not is_stub:
                stubs.discard(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports |= {(name.asname or name.name).partition(".")[0] for name in node.names}
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            defines |= _bound(node)
            shows = shows or _shows(node)
    loaded = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and _is_read(n)}
    attributes = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    strings = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    everywhere = _bound(tree)
    return Names(
        defines=frozenset(defines | stubs),
        imports=frozenset(imports),
        needs=frozenset(loaded - everywhere - _BUILTINS),
        shows=shows,
        reads=bool(_READS & (loaded | attributes | everywhere)) or _opens_input(tree, strings),
        stubs=frozenset(stubs),
    )


def _is_read(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


def _bound(tree: ast.AST) -> set[str]:
    """Every name that is bound anywhere within a node."""
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            bound.add(node.name)
    return bound


def _shows(node: ast.stmt) -> bool:
    """Whether a statement writes something, or calls a function for what that does."""
    if isinstance(node, ast.Assert):
        return False
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call):
            name = getattr(inner.func, "id", getattr(inner.func, "attr", ""))
            if name in ("print", "write", "writelines"):
                return True
        if isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Call):
            called = getattr(inner.value, "func", None)
            if not isinstance(called, ast.Attribute) or called.attr in ("run", "start", "main"):
                return True
    return False


def _is_stub(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Whether a body is only a placeholder: a docstring, `pass` or `...`."""
    if isinstance(node, ast.ClassDef):
        inner = [n for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        return bool(inner) and all(_is_stub(n) for n in inner)
    return all(
        isinstance(statement, ast.Pass)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        or (isinstance(statement, ast.Raise) and "NotImplemented" in ast.dump(statement))
        for statement in node.body
    )


def _opens_input(tree: ast.Module, strings: Collection[object]) -> bool:
    """Whether it opens its input by a number or a path, as `open(0)` and `os.read(0, n)` do."""
    if "/dev/stdin" in strings:
        return True
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        first = call.args[0] if call.args else None
        value = first.value if isinstance(first, ast.Constant) else None
        if name in ("open", "read", "fdopen") and value == 0 and value is not False:
            return True
    return False


def annotated(text: str) -> frozenset[str]:
    """The names in the annotations of a text, as far as it binds them nowhere."""
    known = of(text)
    if known is None or not known.needs:
        return _NONE
    names: set[str] = set()
    for node in ast.walk(fences.parsed(text)):
        for field in ("annotation", "returns"):
            inner = getattr(node, field, None)
            if isinstance(inner, ast.AST):
                names |= {name.id for name in ast.walk(inner) if isinstance(name, ast.Name)}
    return frozenset(names & known.needs)


def classes(text: str) -> frozenset[str]:
    """The classes that a text defines at its top level; none if it is not Python."""
    try:
        body = fences.parsed(text).body
    except (SyntaxError, RecursionError):
        return _NONE
    return frozenset(node.name for node in body if isinstance(node, ast.ClassDef))


def defined_within(text: str, method: str) -> list[str]:
    """The classes at the top of a text that define a method, in order."""
    try:
        body = fences.parsed(text).body
    except SyntaxError:
        return []
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    classes = (node for node in body if isinstance(node, ast.ClassDef))
    named = itertools.chain.from_iterable(
        ((owner.name, node.name) for node in owner.body if isinstance(node, functions))
        for owner in classes
    )
    return [owner for owner, name in named if name == method]

"""Checks tests in Python without running them: whether any program could fail them."""

import ast
import builtins
import sys

from rlvr_cli.verification.parsing import fences, python_names

_FRAMEWORKS = {"pytest", "unittest", "numpy", "np", "hypothesis"}
_DYNAMIC = {"globals", "eval", "exec", "getattr", "__import__"}


class Unreadable(Exception):
    """Why tests say nothing of a program."""


def wanted(text: str, entry: str | None) -> frozenset[str]:
    """The names that a program must define for these tests.

    Unreadable if they are no Python, assert nothing, or assert nothing of a program: they would
    pass whatever was written.
    """
    try:
        tree = fences.parsed(text)
    except SyntaxError as error:
        raise Unreadable(f"its tests are no Python: line {error.lineno}: {error.msg}") from error
    if not any(_asserts(node) for node in ast.walk(tree)):
        raise Unreadable("its tests assert nothing: they would pass whatever was written")
    if entry is None and _waits_for_candidate(tree):
        raise Unreadable(
            "it has check(candidate), and nothing says which function that is: "
            "name it in `entry_point`"
        )
    known = python_names.of(text)
    called = set(known.needs if known else ()) - _modules_named(tree)
    called |= _imported(tree) | ({entry} if entry else set())
    called = called or _named_as_built_in(tree)
    dynamic = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} & _DYNAMIC
    if not called and not dynamic:
        raise Unreadable("its tests call nothing: they would pass whatever was written")
    return frozenset(called)


def _asserts(node: ast.AST) -> bool:
    """Whether a node can fail: an assertion of something, a `raise`, or a call that asserts."""
    if isinstance(node, ast.Assert):
        is_tuple = isinstance(node.test, ast.Tuple) and bool(node.test.elts)
        return not is_tuple and not (isinstance(node.test, ast.Constant) and bool(node.test.value))
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        return name.startswith(("assert", "fail")) or name in ("raises", "exit")
    return isinstance(node, ast.Raise)


def _waits_for_candidate(tree: ast.Module) -> bool:
    """Whether the assertions are in a `check(candidate)` that the tests do not call themselves."""
    defined = any(isinstance(n, ast.FunctionDef) and n.name == "check" for n in tree.body)
    calls = (n.func for n in ast.walk(tree) if isinstance(n, ast.Call))
    is_called = any(isinstance(f, ast.Name) and f.id == "check" for f in calls)
    outside = (n for n in tree.body if not isinstance(n, ast.FunctionDef | ast.ClassDef))
    return defined and not is_called and not any(_asserts(m) for n in outside for m in ast.walk(n))


def _modules_named(tree: ast.Module) -> set[str]:
    """The modules that tests use, only through their attributes, without importing them."""
    bases = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    alone = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in bases}
    return (set(sys.stdlib_module_names) - alone) | _FRAMEWORKS


def _named_as_built_in(tree: ast.Module) -> set[str]:
    """The functions that assertions compare, if tests otherwise use only built-in names."""
    tests = (node.test for node in ast.walk(tree) if isinstance(node, ast.Assert))
    calls = (test.left for test in tests if isinstance(test, ast.Compare))
    named = {getattr(call.func, "id", "") for call in calls if isinstance(call, ast.Call)}
    return named & set(dir(builtins))


def _imported(tree: ast.Module) -> set[str]:
    """The names that tests import from the program: from no module that is known here."""
    names: set[str] = set()
    imports = (alias for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names)
    own = {a.asname or a.name for a in imports if not _is_known(a.name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names |= {node.attr} if node.value.id in own else set()
        elif isinstance(node, ast.ImportFrom) and node.module and not _is_known(node.module):
            names |= {name.name for name in node.names}
    return names


def _is_known(module: str) -> bool:
    root = module.partition(".")[0]
    return root in sys.stdlib_module_names or root in _FRAMEWORKS


def counted(text: str, entry: str | None, seconds: float | None, *, counts: bool) -> str:
    """Tests in pieces that pass or fail on their own, each within its own limit of time.

    A statement at the top that asserts or calls is a piece, with what is above it; so is each
    of `check(candidate)`, with `entry` as the candidate. Other tests are as they are.
    """
    body = fences.parsed(text).body
    if entry and (check := _uncalled(body)):
        body = [node for node in body if node is not check]
        if any(isinstance(n, ast.Return | ast.Yield | ast.Nonlocal) for n in ast.walk(check)):
            body += [check, *ast.parse(f"check({entry})").body]
        else:
            body += [*ast.parse(f"{check.args.args[0].arg} = {entry}").body, *check.body]
    pieces: list[list[ast.stmt]] = []
    waiting: list[ast.stmt] = []
    for node in body:
        waiting.append(node)
        if _is_test(node):
            pieces.append(waiting)
            waiting = []
    if not pieces:
        return text
    pieces[-1] += waiting
    return counting([_unparsed(piece) for piece in pieces], seconds, counts=counts)


def counting(pieces: list[str], seconds: float | None, *, counts: bool) -> str:
    """Pieces of tests as one text, in which each is counted and has a limit of time."""
    lines = ["from rlvr_cli.verification.sandbox import counting as _counting"]
    if counts:
        lines.append(f"_counting.expect({len(pieces)})")
    head = ast.parse(f"with _counting.test({seconds}): pass").body[0]
    assert isinstance(head, ast.With)
    for piece in pieces:
        head.body = fences.parsed(piece).body
        lines.append(_unparsed([head]))
    return "\n".join(lines)


def _uncalled(body: list[ast.stmt]) -> ast.FunctionDef | None:
    """The function `check` of tests that do not call it."""
    checks = [n for n in body if isinstance(n, ast.FunctionDef) and n.name == "check"]
    calls = (m.func for n in body for m in ast.walk(n) if isinstance(m, ast.Call))
    if not checks or any(isinstance(f, ast.Name) and f.id == "check" for f in calls):
        return None
    return checks[-1] if len(checks[-1].args.args) == 1 else None


def _is_test(node: ast.stmt) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    return is_call or any(_asserts(inner) for inner in ast.walk(node))


def _unparsed(body: list[ast.stmt]) -> str:
    return ast.unparse(ast.Module(body, []))

"""Style `tests`: assertions that call what a program defines.

It runs inside the sandbox and imports only the standard library.
"""

import ast
import builtins
import contextlib
import importlib.util
import io
import os
import re
import sys
import types
from typing import Any

from rlvr_cli.verification.sandbox import assertions, program_side, suites
from rlvr_cli.verification.sandbox.child import Child, OutOfTime
from rlvr_cli.verification.sandbox.messages import Gone
from rlvr_cli.verification.sandbox.patches import share_environment, share_patches
from rlvr_cli.verification.sandbox.scope import ProgramFinder, Scope, reflect
from rlvr_cli.verification.sandbox.tests_side import TESTS, TestsSide, Untestable
from rlvr_cli.verification.sandbox.words import Words

serve = program_side.serve
_DEEP = 10_000  # calls within calls, as those of two processes take several each


def check(child: Child, rest: dict[str, Any]) -> dict[str, Any]:
    """What came of tests that call the program; `bad_gold` unless an assertion of them ran."""
    source = rest["tests"]
    given = f"{source}\n{rest['prompt']}"
    try:
        tree = ast.parse(source)
        words = Words(tree)
        asserted = assertions.rewrite(tree)
        code = compile(tree, "tests", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        return _bad(f"the tests do not compile: {error}")
    if not asserted:
        return _bad("the tests assert nothing")
    try:
        side = TestsSide(child, words)
    except ModuleNotFoundError as error:
        missing = _missing(error, given)
        if missing is None:
            raise
        return _lacking(missing)
    ledger = assertions.Ledger(source, lambda: side.was_called)
    _prepare(side, words)
    scope = Scope(side, words)
    scope[assertions.LEDGER] = ledger
    _define(rest["prompt"], side, scope)
    try:
        entry = _entry(side, rest["entry_point"], scope)
        suites.run(code, scope, entry, ledger)
        failure: BaseException | None = None
    except suites.BadGold as error:
        return _bad(str(error))
    except (MemoryError, OutOfTime, Gone):
        raise
    except BaseException as error:
        failure = error
    return _outcome(side, ledger, failure, given)


def _outcome(
    side: TestsSide, ledger: assertions.Ledger, failure: BaseException | None, given: str
) -> dict[str, Any]:
    """What the tests say in the end, and what they swallowed."""
    if side.ended is not None and not isinstance(side.ended, Untestable):
        raise side.ended
    if isinstance(side.ended, Untestable):
        return {"status": "error", "reason": str(side.ended)[:200]}
    if isinstance(failure, ModuleNotFoundError):
        if side.last_error is not failure:
            return _lacking(str(failure.name))
        if missing := _missing(failure, given):
            return _lacking(missing)
    if failure is not None:
        return {"passed": False, "reason": _described(failure, ledger)}
    if ledger.swallowed is not None:
        text = ledger.text(ledger.swallowed)
        return {"passed": False, "reason": f"it failed, and the tests went on: {text}"[:200]}
    if ledger.passed:
        return {"passed": True}
    if side.last_error is not None:
        return {"passed": False, "reason": _described(side.last_error, ledger)}
    if not side.was_called:
        return _bad("the tests never call the program")
    return _bad("no assertion of the tests ran")


def _missing(error: ModuleNotFoundError, given: str) -> str | None:
    """The package that a program lacks and its tests or prompt import: it may well use it."""
    match = re.search(r"No module named '(\w+)", str(error))
    if match is None or importlib.util.find_spec(match[1]):
        return None
    is_asked = re.search(rf"^\s*(?:import|from)\s+{match[1]}\b", given, re.MULTILINE)
    return match[1] if is_asked else None


def _lacking(package: str) -> dict[str, Any]:
    return {
        "status": "error",
        "reason": f"the tests or the prompt import {package}, which is not here"[:200],
    }


def _bad(reason: str) -> dict[str, Any]:
    return {"status": "bad_gold", "reason": reason[:200]}


def _described(error: BaseException, ledger: assertions.Ledger) -> str:
    name = type(error).__name__
    is_assertion = isinstance(error, AssertionError) and ledger.line is not None
    text = ledger.text(ledger.line) if is_assertion else assertions.message_of(error)
    return f"{name}: {text}"[:200]


def _prepare(side: TestsSide, words: Words) -> None:
    """Gives this process what tests expect of one: streams, the modules that they import."""
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), _nowhere(), _nowhere()
    side.printed_to(sys.stdout)
    sys.setrecursionlimit(_DEEP)
    sys.argv = [TESTS]
    module = types.ModuleType(TESTS)
    module.__file__ = "tests"
    sys.modules[TESTS] = module  # where some of the standard library looks for a class's module
    for name in ("exit", "quit"):
        setattr(builtins, name, sys.exit)
    modules = {module.partition(".")[0] for module in (*words.imported, *words.imports)}
    if "pytest" in modules:
        from rlvr_cli.verification.sandbox import pytest_shim

        sys.modules["pytest"] = pytest_shim.module()
    if "unittest" in modules:
        import unittest

        unittest.main = lambda *_, **__: None  # type: ignore[assignment]
    if words.is_async:
        from rlvr_cli.verification.sandbox import loops

        loops.install()
    reflect(side, modules | words.bases)
    share_patches(side, modules)
    share_environment(side, words)
    sys.meta_path.append(ProgramFinder(side, words))


def _nowhere() -> Any:
    return open(os.devnull, "w", encoding="utf-8", errors="replace")


def _entry(side: TestsSide, name: str | None, scope: Scope) -> Any:
    """What is tested: a function, or a method as in `Solution().f`; None if nothing says."""
    if not name:
        return None
    first = name.partition("(")[0].partition(".")[0]
    if first not in side.names:
        raise Gone(f"it defines no {first}")
    scope[first] = side.program_global(first)
    try:
        return eval(name, scope)
    except AttributeError:
        raise Gone(f"it defines no {name}") from None


def _define(prompt: str, side: TestsSide, scope: Scope) -> None:
    """The functions of a prompt, for tests that use its helpers, which no program may replace.

    A prompt may be an incomplete program. Its classes are the program's, whose objects they are
    the classes of; what it only begins is the program's as well.
    """
    try:
        tree = ast.parse(prompt)
    except (SyntaxError, ValueError):
        return
    tree.body = [node for node in tree.body if not _is_begun(node, side.names)]
    with contextlib.suppress(Exception):
        exec(compile(tree, "prompt", "exec", dont_inherit=True), scope)


def _is_begun(node: ast.stmt, names: set[str]) -> bool:
    """Whether a definition of a prompt is left to the program."""
    if isinstance(node, ast.ClassDef):
        return node.name in names
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    return all(isinstance(part, ast.Pass | ast.Raise) or _is_ellipsis(part) for part in body)


def _is_ellipsis(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)

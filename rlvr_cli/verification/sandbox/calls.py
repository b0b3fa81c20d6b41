"""Style `tests`: assertions that call what a program defines.

It runs inside the sandbox and imports the standard library alone.
"""

import ast
import builtins
import contextlib
import importlib
import sys
from collections.abc import Callable
from typing import Any

from rlvr_cli.verification.sandbox import messages, values
from rlvr_cli.verification.sandbox.child import NAME, Child, limit
from rlvr_cli.verification.sandbox.messages import Gone


def serve(job: dict[str, Any], asks: int, answers: int) -> None:
    """The child: runs the program, says what it defines, and calls what it is asked to."""
    scope: dict[str, Any] = {"__name__": NAME, "__builtins__": builtins}
    program = job["program"]
    limit(job)
    try:
        exec(compile(program, NAME, "exec"), scope)
        names = [name for name, value in scope.items() if callable(value)]
        messages.send(answers, {"names": names})
    except BaseException as error:
        messages.send(answers, _raised(error))
        return
    while (request := messages.get(asks)) is not None:
        try:
            arguments, named = values.decode(request["arguments"]), values.decode(request["named"])
            result = scope[request["name"]](*arguments, **named)
            messages.send(answers, {"value": values.encode(result)})
        except BaseException as error:
            messages.send(answers, _raised(error))


def _raised(error: BaseException) -> dict[str, str]:
    try:
        text = str(error)[:200]
    except BaseException:
        text = ""
    return {"raised": type(error).__name__, "text": text}


def check(child: Child, rest: dict[str, Any]) -> dict[str, Any]:
    """Assertions, or a function `check(candidate)`, that call what the program defines."""
    try:
        tree = ast.parse(rest["tests"])
        tests = compile(tree, "tests", "exec")
    except (SyntaxError, ValueError) as error:
        return {"status": "bad_gold", "reason": f"the tests do not compile: {error}"[:200]}
    names, entry = child.receive()["names"], rest["entry_point"]
    scope = _defined_by(rest["prompt"])
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for name in names:
        if name == entry or (name in used and name not in scope and not hasattr(builtins, name)):
            scope[name] = _proxy(child, name)
    if entry and entry not in names:
        return {"passed": False, "reason": f"it defines no {entry}"}
    for name in _modules(tree) - scope.keys():
        with contextlib.suppress(ImportError):
            scope[name] = importlib.import_module(name)
    exec(tests, scope)
    if entry and callable(scope.get("check")):
        scope["check"](scope[entry])
    return {"passed": True}


def _modules(tree: ast.AST) -> set[str]:
    """The standard library's modules in tests that count on the imports of a program."""
    nodes = (node.value for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return {node.id for node in nodes if isinstance(node, ast.Name)} & sys.stdlib_module_names


def _proxy(child: Child, name: str) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        request = {"arguments": values.encode(arguments), "named": values.encode(named)}
        answer = child.ask({"name": name, **request})
        try:
            return values.decode(answer["value"])
        except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
            raise Gone("it answered what is no value") from error

    return call


def _defined_by(prompt: str) -> dict[str, Any]:
    """What a prompt defines, for tests that use its helpers; it may be an incomplete program."""
    scope: dict[str, Any] = {"__name__": "tests"}
    with contextlib.suppress(Exception):
        exec(compile(prompt, "prompt", "exec"), scope)
    return scope

"""Which assertions of tests ran, and how they came out.

Tests are rewritten before they run: each assertion reports to a `Ledger`. So it is known whether
any ran at all, and one that failed counts although the tests swallow it. It runs inside the sandbox
and imports only the standard library.
"""

import ast
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

LEDGER = "__rlvr_ledger__"  # its name in the tests
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_EXPECTING = {"raises", "assertRaises", "assertRaisesRegex", "warns", "assertWarns",
              "assertWarnsRegex", "assertLogs", "assertNoLogs"}  # fmt: skip
_ENDING = {"fail", "exit", "_exit"}  # calls that end a test as failed
_FIXED = {"bool", "bytes", "dict", "float", "int", "isinstance", "len", "list", "object", "set",
          "str", "tuple", "type"}  # fmt: skip
_WIDE = {"Exception", "BaseException"}


class Ledger:
    """The assertions that ran."""

    def __init__(self, source: str, was_called: Callable[[], bool]) -> None:
        self.passed = 0
        self.entered: set[str] = set()  # the functions that tests define and call
        self._was_called = was_called
        self._lines = source.splitlines()
        self._failed: list[list[Any]] = []  # depth, the depth of what caught it, line
        self._depth = 0  # of the `try` around it that may swallow a failure
        self._said: dict[int, str] = {}  # by line, the messages of those that failed
        self.line: int | None = None  # of the last that failed

    @property
    def swallowed(self) -> int | None:
        """The line of an assertion that failed and nothing made up for."""
        return self._failed[0][2] if self._failed else None

    def text(self, line: int | None) -> str:
        """The message of the failed assertion of a line, and the line."""
        source = self._lines[line - 1].strip() if line and line <= len(self._lines) else ""
        said = self._said.get(line or 0, "")
        return f"{said} ({source})" if said and said not in source else source

    def passes(self) -> None:
        """Counts an assertion that holds; one before the program was called says nothing."""
        self._failed = [f for f in self._failed if f[1] is None or f[1] < self._depth]
        self.passed += self._was_called()

    def fails(self, line: int, said: str) -> None:
        self.line = line
        self._said[line] = said
        self._failed.append([self._depth, None, line])

    def caught(self) -> None:
        """Tests that say `except AssertionError` know it, if an assertion outside holds then."""
        for failure in self._failed:
            if failure[1] is None and failure[0] > self._depth:
                failure[1] = self._depth

    def enters(self, name: str) -> None:
        self.entered.add(name)

    def assertion(self, line: int, expects: bool = False) -> "_Assertion":
        return _Assertion(self, line, expects)

    def guard(self) -> "_Guard":
        return _Guard(self)

    def mark(self) -> int:
        return len(self._failed)

    def forgive(self, mark: int) -> None:
        del self._failed[mark:]

    def move(self, step: int) -> None:
        self._depth += step


class _Guard:
    """The body of a `try` that may swallow what fails in it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __enter__(self) -> None:
        self._ledger.move(1)

    def __exit__(self, *error: object) -> None:
        self._ledger.move(-1)


class _Assertion:
    """One assertion; `expects` if it is of an error, which may be that of another assertion."""

    def __init__(self, ledger: Ledger, line: int, expects: bool) -> None:
        self._ledger, self._line, self._expects = ledger, line, expects

    def __enter__(self) -> None:
        self._mark = self._ledger.mark()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if kind is None:
            if self._expects:
                self._ledger.forgive(self._mark)
            self._ledger.passes()
        elif issubclass(kind, AssertionError):
            self._ledger.fails(self._line, message_of(error))


def message_of(error: BaseException | None) -> str:
    """The message of an error, whose class may be the program's own; "" where it has none."""
    try:
        return str(error or "")
    except BaseException:
        return ""


def rewrite(tree: ast.Module) -> int:
    """Has the assertions of tests report to their ledger; returns how many there are."""
    rewriter = _Rewriter(tree)
    rewriter.visit(tree)
    ast.fix_missing_locations(tree)
    return rewriter.count


class _Rewriter(ast.NodeTransformer):
    def __init__(self, tree: ast.Module) -> None:
        self.count = 0
        self._defined = {n.name for n in ast.walk(tree) if isinstance(n, _FUNCTIONS)}
        self._tests = {n.name for n in tree.body if isinstance(n, _FUNCTIONS)}
        self._helpers = [False]  # whether each function around is one that returns a value

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return node if _says_nothing(node.test) else self._wrapped(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        self.generic_visit(node)
        name = _name_of(call.func) if isinstance(call, ast.Call) else ""
        if name.startswith("assert") and name not in self._defined:
            given = call.args if isinstance(call, ast.Call) else []
            is_own = name[6:7].isupper()  # of unittest; a mock's ask what was called
            is_fixed = is_own and bool(given) and all(map(_is_fixed, given))
            return node if is_fixed else self._wrapped(node)
        return node

    def visit_With(self, node: ast.With) -> ast.AST:
        self.generic_visit(node)
        calls = [item.context_expr for item in node.items]
        if any(isinstance(c, ast.Call) and _name_of(c.func) in _EXPECTING for c in calls):
            return self._wrapped(node, expects=True)
        return node

    visit_AsyncWith = visit_With  # type: ignore[assignment]

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return self._wrapped(node) if _raises_assertion(node) else node

    def visit_If(self, node: ast.If) -> ast.AST:
        ends = [_ends(body, helper=self._helpers[-1]) for body in (node.body, node.orelse)]
        self.generic_visit(node)
        if ends[0] and not ends[1]:
            node.orelse = [self._report("passes"), *node.orelse]
        elif ends[1] and not ends[0]:
            node.body = [self._report("passes"), *node.body]
        return node

    def visit_Try(self, node: ast.Try) -> ast.AST:
        expects = _ends(node.body) or _ends(node.orelse)
        kinds = [_caught(handler) for handler in node.handlers]
        self.generic_visit(node)
        if any("AssertionError" in kind or kind & _WIDE for kind in kinds):
            node.body = [_with(_call("guard"), node.body, node)]
        for handler, kind in zip(node.handlers, kinds, strict=True):
            if "AssertionError" in kind:
                handler.body.insert(0, _expression("caught"))
            elif expects:
                handler.body.insert(0, self._report("passes"))
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        returns = [n for n in ast.walk(node) if isinstance(n, ast.Return) and n.value]
        is_test = node.name.startswith(("test", "check"))
        self._helpers.append(bool(returns) and not is_test)
        self.generic_visit(node)
        self._helpers.pop()
        if node.name in self._tests:
            entered = _expression("enters", ast.Constant(node.name))
            has_text = ast.get_docstring(node, clean=False) is not None
            node.body.insert(int(has_text), entered)
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def _wrapped(self, node: ast.stmt, *, expects: bool = False) -> ast.AST:
        self.count += 1
        call = _call("assertion", ast.Constant(node.lineno), ast.Constant(expects))
        return _with(call, [node], node)

    def _report(self, name: str) -> ast.stmt:
        self.count += 1
        return _expression(name)


def _name_of(node: ast.expr) -> str:
    """The last part of a dotted name."""
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _raises_assertion(node: ast.Raise) -> bool:
    error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return error is not None and _name_of(error) == "AssertionError"


def _ends(body: Sequence[ast.stmt], *, helper: bool = False) -> bool:
    """Whether statements end a test as failed; a helper's own errors do not."""
    for node in body:
        if isinstance(node, ast.Raise) and node.exc and (_raises_assertion(node) or not helper):
            return True
        if isinstance(node, ast.Assert) and _is_constant(node.test, holds=False):
            return True
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and _name_of(call.func) in _ENDING and not helper:
            return True
    return False


def _is_constant(node: ast.expr, *, holds: bool) -> bool:
    return isinstance(node, ast.Constant) and bool(node.value) is holds


def _says_nothing(test: ast.expr) -> bool:
    """Whether an assertion has the same result for any program, or compares it with itself."""
    if _is_fixed(test) and not _is_constant(test, holds=False):
        return True
    if isinstance(test, ast.Tuple | ast.List | ast.Set):
        return bool(test.elts)
    if isinstance(test, ast.Lambda):
        return True
    if isinstance(test, ast.BoolOp):
        decides = any if isinstance(test.op, ast.Or) else all
        return decides(map(_says_nothing, test.values))
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq | ast.Is):
        return len({ast.dump(side) for side in (test.left, *test.comparators)}) == 1
    return False


def _is_fixed(node: ast.expr) -> bool:
    """Whether an expression has only constants, and built-in classes and `len` of them."""
    names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    return names <= _FIXED and not isinstance(node, ast.Starred)


def _caught(handler: ast.ExceptHandler) -> set[str]:
    if handler.type is None:
        return {"BaseException"}
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {_name_of(kind) for kind in kinds}


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    function = ast.Attribute(ast.Name(LEDGER, ast.Load()), name, ast.Load())
    return ast.Call(function, list(arguments), [])


def _expression(name: str, *arguments: ast.expr) -> ast.stmt:
    return ast.Expr(_call(name, *arguments))


def _with(context: ast.expr, body: list[ast.stmt], place: ast.AST) -> ast.With:
    return ast.copy_location(ast.With([ast.withitem(context, None)], body), place)

"""Runs what tests define: assertions, test functions and classes, `check(candidate)`, unittest.

It runs inside the sandbox and imports only the standard library.
"""

import inspect
import itertools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from rlvr_cli.verification.sandbox import pytest_shim
from rlvr_cli.verification.sandbox.assertions import Ledger
from rlvr_cli.verification.sandbox.pytest_shim import Fixture

# What fixtures of a file or class made, and their generators, for the one program of this process.
_SHARED: dict[tuple[str, Any, int], tuple[Any, Any]] = {}


class BadGold(Exception):
    """Why tests decide nothing."""


def run(code: types.CodeType, scope: dict[str, Any], entry: Any, ledger: Ledger) -> None:
    """Runs the tests' text, and then what it defines and has not called itself."""
    try:
        exec(code, scope)
    except pytest_shim.Skipped as error:
        raise BadGold(f"its tests skip themselves: {error}") from error
    except SystemExit as error:
        if error.code not in (None, 0) or getattr(error, "_rlvr_ref", None) is not None:
            raise
    check = dict.get(scope, "check")
    if callable(check) and "check" not in ledger.entered and _takes(check) == 1:
        if entry is None:
            raise BadGold("its check(candidate) needs an entry_point")
        _finish(check(entry))
    defined = [(name, value) for name, value in scope.items() if _is_own(value)]
    try:
        _run_all(defined, scope, entry, ledger)
    finally:
        _close([value for _, value in _SHARED.values()])


def _run_all(
    defined: list[tuple[str, Any]], scope: dict[str, Any], entry: Any, ledger: Ledger
) -> None:
    module = sys.modules["__main__"]
    _call_if_any(types.SimpleNamespace(**_hooks(scope)), "setup_module", module)
    for name, value in defined:
        if isinstance(value, type):
            _run_class(name, value, scope, entry, ledger)
        elif name.startswith("test") and name not in ledger.entered:
            _run_test(value, scope, entry)
    _call_if_any(types.SimpleNamespace(**_hooks(scope)), "teardown_module", module)


def _hooks(scope: dict[str, Any]) -> dict[str, Any]:
    """The functions around tests that their file defines under pytest's names."""
    names = (f"{way}_{what}" for way in ("setup", "teardown") for what in ("module", "function"))
    hooks = {name: dict.get(scope, name) for name in names}
    return {name: value for name, value in hooks.items() if isinstance(value, types.FunctionType)}


def _is_own(value: Any) -> bool:
    is_definition = isinstance(value, type | types.FunctionType)
    where = getattr(getattr(value, "__code__", None), "co_filename", "tests")
    return is_definition and value.__module__ == "__main__" and where != "prompt"


def _takes(function: Callable[..., Any]) -> int:
    parameters = inspect.signature(function).parameters.values()
    return sum(p.default is p.empty and p.kind in (0, 1) for p in parameters)


def _run_class(name: str, kind: type, scope: dict[str, Any], entry: Any, ledger: Ledger) -> None:
    unittest = sys.modules.get("unittest")
    if unittest and issubclass(kind, unittest.TestCase):
        _run_unittest(kind, ledger)
    elif name.startswith("Test") and "__init__" not in vars(kind):
        _call_if_any(kind, "setup_class")
        for method in [m for m in dir(kind) if m.startswith("test")]:
            if not callable(getattr(kind, method)):
                continue
            _run_test(getattr(kind, method), scope, entry, make=kind, name=method)
        _call_if_any(kind, "teardown_class")


def _call_if_any(owner: Any, name: str, *arguments: Any) -> None:
    function = getattr(owner, name, None)
    if function is not None:
        function(*arguments[: _takes(function)])


def _run_unittest(kind: Any, ledger: Ledger) -> None:
    import unittest

    class Result(unittest.TestResult):
        first: BaseException | None = None
        mark = 0

        def addError(self, test: Any, err: Any) -> None:
            self.first = self.first or err[1]
            self.stop()

        addFailure = addError

        def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
            if err is not None:
                self.addError(test, err)

        def startTest(self, test: Any) -> None:
            super().startTest(test)
            self.mark = ledger.mark()

        def addExpectedFailure(self, test: Any, err: Any) -> None:
            ledger.forgive(self.mark)

        def addUnexpectedSuccess(self, test: Any) -> None:
            self.first = self.first or AssertionError("unexpected success")

    result = Result()
    loader = unittest.TestLoader()
    unittest.TestSuite([loader.loadTestsFromTestCase(kind)]).run(result)
    if result.first is not None:
        raise result.first


def _run_test(
    test: Any, scope: dict[str, Any], entry: Any, make: Any = None, name: str = ""
) -> None:
    """A test function or method, once for each of its cases."""
    if make is not None:
        test.__dict__.setdefault("pytestmark", [])
    marks = [*getattr(make, "pytestmark", []), *getattr(test, "pytestmark", [])]
    holder = types.SimpleNamespace(pytestmark=marks)
    used = [name for mark in marks if mark.name == "usefixtures" for name in mark.args]
    around = types.SimpleNamespace(**({} if make else _hooks(scope)))
    cases = (
        (case, params)
        for case in pytest_shim.cases(holder)
        for params in _params(_Fixtures(scope, case, entry, make), [*used, *_names(test)])
    )
    for case, params in cases:
        fixtures = _Fixtures(scope, case, entry, make, params)
        function = test
        owner = None
        if make is not None:
            owner = fixtures.owner = make()
            function = getattr(owner, name)
            _call_if_any(owner, "setup_method", function)
        _call_if_any(around, "setup_function", test)
        try:
            fixtures.start(used)
            arguments = {n: fixtures.get(n) for n in _names(function)}
            _finish(function(**arguments))
        except pytest_shim.Skipped:
            pass
        finally:
            fixtures.end()
            _call_if_any(around, "teardown_function", test)
            if owner is not None:
                _call_if_any(owner, "teardown_method", function)


def _params(fixtures: "_Fixtures", names: list[str]) -> Iterator[dict[str, Any]]:
    """What each fixture with `params` that a test needs is given, one combination after another."""
    params: dict[str, list[Any]] = {}
    waiting, seen = [*fixtures.automatic(), *names], set[str]()
    while waiting:
        fixture = fixtures.defined(name := waiting.pop())
        if fixture is None or name in seen:
            continue
        seen.add(name)
        waiting += _names(fixture.function)
        if "params" in fixture.options:
            params[name] = [
                row.values[0] if isinstance(row, pytest_shim.Param) else row
                for row in fixture.options["params"]
            ]
    for values in itertools.product(*params.values()):
        yield dict(zip(params, values, strict=True))


def _names(function: Any) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
            and p.default is p.empty]  # fmt: skip


def _finish(result: Any) -> None:
    """Awaits what an asynchronous test returns."""
    if inspect.iscoroutine(result):
        import asyncio

        from rlvr_cli.verification.sandbox import loops

        loops.install()
        asyncio.run(result)


class _Fixtures:
    """What one test names as its parameters."""

    def __init__(
        self,
        scope: dict[str, Any],
        case: dict[str, Any],
        entry: Any,
        kind: Any = None,
        params: dict[str, Any] | None = None,
    ) -> None:
        self._scope, self._entry, self._kind = scope, entry, kind
        self._values, self._params = dict(case), params or {}
        self._open: list[Any] = []
        self.owner: Any = None

    def start(self, used: list[str]) -> None:
        for name in [*self.automatic(), *used]:
            self.get(name)

    def automatic(self) -> list[str]:
        """The fixtures that each test has."""
        holders = (self._scope, vars(self._kind) if self._kind else {})
        return [
            name
            for holder in holders
            for name, value in holder.items()
            if isinstance(value, Fixture) and value.options.get("autouse")
        ]

    def get(self, name: str) -> Any:
        if name not in self._values:
            self._values[name] = self._made(name)
        return self._values[name]

    def defined(self, name: str) -> Any:
        """The fixture of a name that the tests define."""
        known = [f for f in self._scope.values() if isinstance(f, Fixture)]
        named = [f for f in known if f.options.get("name") == name]
        candidates = (getattr(self._kind, name, None), dict.get(self._scope, name), *named)
        return next((f for f in candidates if isinstance(f, Fixture)), None)

    def _made(self, name: str) -> Any:
        fixture = self.defined(name)
        if fixture is not None:
            scope = fixture.options.get("scope", "function")
            if scope == "function":
                value, source = self._of(fixture, name)
                self._open.append(source)
                return value
            key = (name, self._kind if scope == "class" else None, id(self._params.get(name)))
            if key not in _SHARED:
                _SHARED[key] = self._of(fixture, name)
            return _SHARED[key][0]
        if name in pytest_shim.BUILT_IN:
            value = pytest_shim.BUILT_IN[name]()
            self._open.append(value)
            return value
        if name == "request":
            return types.SimpleNamespace(getfixturevalue=self.get)
        if name == "candidate" and self._entry is not None:
            return self._entry
        raise BadGold(f"a test needs the fixture `{name}`, which is not supported")

    def _of(self, fixture: Fixture, name: str) -> tuple[Any, Any]:
        """What a fixture makes, and what makes an end of it."""
        names = _names(fixture.function)
        given = {n: self.get(n) for n in names if n not in ("self", "request")}
        if "request" in names:
            given["request"] = types.SimpleNamespace(
                param=self._params.get(name), getfixturevalue=self.get
            )
        value = fixture.function(*[self.owner][: "self" in names], **given)
        if isinstance(value, Iterator) and inspect.isgenerator(value):
            return next(value), value
        return value, None

    def end(self) -> None:
        _close(self._open)


def _close(sources: list[Any]) -> None:
    """Runs the code of fixtures after their `yield`, the last one first."""
    for source in reversed(sources):
        if inspect.isgenerator(source):
            next(source, None)
        elif isinstance(source, pytest_shim.Capture | pytest_shim.MonkeyPatch):
            source.end()

"""The part of pytest that tests of programs use, under its name; it is not pytest.

Fixtures are those of the tests' own file and `capsys`, `monkeypatch` and `tmp_path`. It runs inside
the sandbox and imports only the standard library.
"""

import inspect
import io
import math
import os
import pathlib
import re
import sys
import types
import warnings as _warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any


class Skipped(BaseException):
    """A test that skips itself."""


class Failed(AssertionError):
    """A test that fails by hand."""


class Mark:
    """A mark of a test: its name, and what it was given."""

    def __init__(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.name, self.args, self.kwargs = name, args, kwargs

    def _on(self, test: Any) -> Any:
        test.pytestmark = [*getattr(test, "pytestmark", []), self]
        return test


class _Marks:
    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)

        def make(*args: Any, **kwargs: Any) -> Any:
            is_bare = len(args) == 1 and not kwargs
            if is_bare and (inspect.isroutine(args[0]) or isinstance(args[0], type)):
                return Mark(name, (), {})._on(args[0])
            return Mark(name, args, kwargs)._on

        make.name = name  # type: ignore[attr-defined]
        return make


mark = _Marks()


class Param:
    """One case of `parametrize`."""

    def __init__(self, values: tuple[Any, ...], marks: Any) -> None:
        self.values = values
        self.marks = marks if isinstance(marks, list | tuple) else [marks]


def param(*values: Any, marks: Any = (), id: Any = None) -> Param:
    return Param(values, marks)


class Fixture:
    """A function that makes what tests name as a parameter."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.function, self.options = function, options
        self.__name__ = function.__name__


def fixture(function: Any = None, **options: Any) -> Any:
    if function is None:
        return lambda inner: Fixture(inner, options)
    return Fixture(function, options)


def skip(reason: str = "", **_: Any) -> None:
    raise Skipped(reason)


def fail(reason: str = "", **_: Any) -> None:
    raise Failed(reason)


def xfail(reason: str = "") -> None:
    raise Skipped(reason)


def importorskip(name: str, *_: Any, **__: Any) -> Any:
    try:
        return __import__(name)
    except ImportError:
        raise Skipped(f"no {name}") from None


def main(*_: Any, **__: Any) -> int:
    """Tests run anyway."""
    return 0


class ExceptionInfo:
    """What `raises` caught."""

    value: Any = None

    @property
    def type(self) -> Any:
        return type(self.value)

    @property
    def tb(self) -> Any:
        return self.value.__traceback__

    def match(self, pattern: str) -> bool:
        text = str(self.value)
        assert re.search(pattern, text), f"{pattern!r} does not match {text!r}"
        return True


class raises:
    """That a block, or a call, raises an error of a kind."""

    def __init__(self, expected: Any, *call: Any, match: Any = None, **named: Any) -> None:
        self._expected, self._match = expected, match
        self._info = ExceptionInfo()
        self.value: Any = None
        if call:
            with self:
                call[0](*call[1:], **named)

    def __enter__(self) -> ExceptionInfo:
        return self._info

    def __exit__(self, kind: Any, error: Any, at: Any) -> bool:
        if kind is None:
            raise Failed(f"DID NOT RAISE {self._expected!r}")
        if not issubclass(kind, self._expected):
            return False
        self._info.value = self.value = error
        if self._match is not None:
            self._info.match(self._match)
        return True


class warns:
    """That a block warns."""

    def __init__(self, expected: Any = Warning, *call: Any, match: Any = None) -> None:
        self._expected, self._match = expected, match
        self._catching = _warnings.catch_warnings(record=True)

    def __enter__(self) -> Any:
        self._caught = self._catching.__enter__()
        _warnings.simplefilter("always")
        return self._caught

    def __exit__(self, *error: Any) -> None:
        self._catching.__exit__(*error)
        if error[0] is None:
            texts = [str(w.message) for w in self._caught or []
                     if issubclass(w.category, self._expected)]  # fmt: skip
            if not any(self._match is None or re.search(self._match, text) for text in texts):
                raise Failed(f"DID NOT WARN {self._expected!r}")


def deprecated_call(*_: Any, **__: Any) -> warns:
    return warns((DeprecationWarning, PendingDeprecationWarning))


class approx:
    """Equal to within a tolerance: 1e-6 of the expected, or 1e-12."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, expected: Any, rel: Any = None, abs: Any = None, nan_ok: bool = False):
        self.expected, self._rel, self._abs, self._nan_ok = expected, rel, abs, nan_ok

    def __eq__(self, actual: object) -> bool:
        return self._near(actual, self.expected)

    def __repr__(self) -> str:
        return f"approx({self.expected!r})"

    def _near(self, actual: Any, expected: Any) -> bool:
        if isinstance(expected, Mapping):
            return (
                isinstance(actual, Mapping)
                and actual.keys() == expected.keys()
                and all(self._near(actual[key], expected[key]) for key in expected)
            )
        if hasattr(expected, "tolist") and hasattr(actual, "tolist"):
            expected, actual = expected.tolist(), actual.tolist()
        if isinstance(expected, list | tuple):
            return (
                isinstance(actual, list | tuple)
                and len(actual) == len(expected)
                and all(map(self._near, actual, expected))
            )
        if isinstance(expected, str | bytes | bool | None) or expected is actual:
            return bool(type(actual) is type(expected) and actual == expected)
        try:
            return self._close(actual, expected)
        except TypeError:
            return False

    def _close(self, actual: Any, expected: Any) -> bool:
        if actual == expected:
            return True
        if actual != actual or expected != expected:
            return bool(self._nan_ok and actual != actual and expected != expected)
        if math.isinf(abs(expected)) or math.isinf(abs(actual)):
            return False
        least = 1e-12 if self._abs is None else self._abs
        share = (1e-6 if self._abs is None else 0.0) if self._rel is None else self._rel
        within = max(type(actual)(0) + share * abs(expected), least)
        return bool(abs(actual - expected) <= within)


class Capture:
    """The fixture `capsys`."""

    def __init__(self) -> None:
        self._before = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = io.StringIO(), io.StringIO()

    def readouterr(self) -> Any:
        streams: tuple[Any, Any] = (sys.stdout, sys.stderr)
        texts = [stream.getvalue() for stream in streams]
        sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
        return _Output(*texts)

    def end(self) -> None:
        sys.stdout, sys.stderr = self._before


class _Output(tuple[str, str]):
    def __new__(cls, out: str, err: str) -> "_Output":
        return super().__new__(cls, (out, err))

    out = property(lambda self: self[0])
    err = property(lambda self: self[1])


_ABSENT = object()
# Called for each name that `monkeypatch` replaces, and whether it has its first value again.
LISTENERS: list[Callable[[Any, str, bool], None]] = []


class MonkeyPatch:
    """The fixture `monkeypatch`."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], Any]] = []

    def setattr(self, target: Any, name: Any, value: Any = _ABSENT, raising: bool = True) -> None:
        if value is _ABSENT:
            path, value = target, name
            module, _, name = path.rpartition(".")
            target = __import__(module)
            for part in module.split(".")[1:]:
                target = getattr(target, part)
        before = getattr(target, name, _ABSENT)
        self._undo.append(lambda: self._put(target, name, before, True))
        self._put(target, name, value, False)

    def _put(self, target: Any, name: str, value: Any, is_first: bool) -> None:
        if value is _ABSENT:
            delattr(target, name)
        else:
            setattr(target, name, value)
            for notify in LISTENERS:
                notify(target, name, is_first)

    def setitem(self, mapping: Any, key: Any, value: Any) -> None:
        before = mapping.get(key, _ABSENT)
        undo = (
            (mapping.pop, (key, None)) if before is _ABSENT else (mapping.update, ({key: before},))
        )
        self._undo.append(lambda: undo[0](*undo[1]))
        mapping[key] = value

    def setenv(self, name: str, value: Any, prepend: Any = None) -> None:
        self.setitem(os.environ, name, str(value))

    def delenv(self, name: str, raising: bool = True) -> None:
        before = os.environ.pop(name, None)
        if before is not None:
            self._undo.append(lambda: os.environ.update({name: before}))

    def end(self) -> None:
        while self._undo:
            self._undo.pop()()

    undo = end


def _folder() -> pathlib.Path:
    import tempfile  # here, as what it imports slows each fork

    return pathlib.Path(tempfile.mkdtemp())


BUILT_IN: dict[str, Callable[[], Any]] = {
    "capsys": Capture, "capfd": Capture, "monkeypatch": MonkeyPatch, "tmp_path": _folder,
}  # fmt: skip


def cases(test: Any) -> Iterator[dict[str, Any]]:
    """The arguments of each case of a parametrized test, those that are skipped left out."""
    combined: list[dict[str, Any]] = [{}]
    for given in getattr(test, "pytestmark", []):
        if given.name == "skip" or (given.name == "skipif" and given.args[:1] and given.args[0]):
            return iter(())
        if given.name == "xfail":
            return iter(())
        if given.name == "parametrize":
            combined = [{**one, **more} for more in _expanded(*given.args[:2]) for one in combined]
    return iter(combined)


def _expanded(names: Any, rows: Iterable[Any]) -> list[dict[str, Any]]:
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",") if name.strip()]
    expanded = []
    for row in rows:
        marks = row.marks if isinstance(row, Param) else ()
        if any(_name_of(m) in ("skip", "xfail") for m in marks):
            continue
        if isinstance(row, Param):
            values: Any = row.values
        else:
            values = (row,) if len(names) == 1 else tuple(row)
        if len(values) != len(names):
            raise ValueError(f"a case of {len(values)} values for {len(names)} names")
        expanded.append(dict(zip(names, values, strict=True)))
    return expanded


def _name_of(mark: Any) -> Any:
    return getattr(getattr(mark, "__self__", mark), "name", None)


def module() -> types.ModuleType:
    """This, as the module that tests import."""
    shim = sys.modules[__name__]
    shim.__path__ = []
    return shim

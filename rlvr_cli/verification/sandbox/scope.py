"""Where tests find the program: by its names, as a module, and as objects that exist on both sides.

It runs inside the sandbox and imports only the standard library.
"""

import builtins
import importlib.machinery
import sys
import types
from collections.abc import Callable
from typing import Any

from rlvr_cli.verification.sandbox.mirrors import Mirror, MirrorType
from rlvr_cli.verification.sandbox.tests_side import TESTS, TestsSide
from rlvr_cli.verification.sandbox.words import Words

_MODULES = ("solution", "main", "program", "submission", "your_module", "my_module", "module",
            "code_solution", "answer", "candidate", "implementation")  # fmt: skip
_REFLECTING = {  # functions that look into objects, so they must run where these are
    "dataclasses": ("asdict", "astuple", "fields", "replace", "is_dataclass"),
    "inspect": ("signature", "isfunction", "ismethod", "iscoroutinefunction", "isabstract",
                "isgenerator", "isgeneratorfunction", "getdoc", "getfullargspec", "getmembers",
                "isasyncgenfunction", "isroutine", "iscoroutine", "isawaitable", "getmro"),
    "typing": ("get_type_hints",),
    "asyncio": ("iscoroutinefunction",),
}  # fmt: skip


class Scope(dict[str, Any]):
    """The tests' global names; one that is missing is the program's."""

    def __init__(self, side: TestsSide, words: Words) -> None:
        super().__init__(__name__=TESTS)
        self._side, self._words = side, words
        self._shadowing: set[str] | None = None
        side.scope = self
        for name in words.in_classes - self.keys():  # where only this dictionary is looked at
            if name in side.names and not hasattr(builtins, name):
                self[name] = side.program_global(name)

    def __missing__(self, name: str) -> Any:
        side = self._side
        if name in side.names and (not hasattr(builtins, name) or name in self.shadowing()):
            value = side.program_global(name)
            side.was_called |= not isinstance(value, Mirror) and not isinstance(value, type)
            return value
        if hasattr(builtins, name):
            raise KeyError(name)
        if name in self._words.bases and name in sys.stdlib_module_names:
            self[name] = __import__(name)
            return self[name]
        raise KeyError(name)

    def shadowing(self) -> set[str]:
        """The built-in name that is the program's: one, where tests would call nothing else of it.

        Else a program could put its own `abs` or `all` in place of what judges it.
        """
        if self._shadowing is None:
            names = self._words.names & self._side.names
            others = {name for name in names if not hasattr(builtins, name)} - self.keys()
            called = [n for n in self._words.called if n in names and n not in others]
            best = max(called, key=called.count, default="")
            self._shadowing = set() if others or not best else {best}
        return self._shadowing


class _Program(types.ModuleType):
    """The program, as a module that tests import."""

    def __init__(self, name: str, side: TestsSide) -> None:
        super().__init__(name)
        types.ModuleType.__setattr__(self, "_rlvr_side", side)
        types.ModuleType.__setattr__(self, "__path__", [])

    def __getattr__(self, name: str) -> Any:
        side = types.ModuleType.__getattribute__(self, "_rlvr_side")
        if name == "__all__":
            return sorted(n for n in side.names if not n.startswith("_"))
        value = side.program_global(name)
        side.was_called |= not isinstance(value, Mirror) and not isinstance(value, type)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            types.ModuleType.__setattr__(self, name, value)
        else:
            self._rlvr_side.names.add(name)
            self._rlvr_side.ask("set_global", name, value)

    def __delattr__(self, name: str) -> None:
        self._rlvr_side.names.discard(name)
        self._rlvr_side.ask("del_global", name)


class ProgramFinder:
    """Finds the program where tests import a module that there is not."""

    def __init__(self, side: TestsSide, words: Words) -> None:
        self._side = side
        self._modules = {
            module
            for module, names in words.imported.items()
            if names <= side.names | {"*"}
            and module.partition(".")[0] not in sys.stdlib_module_names
        } | set(_MODULES)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._modules and not any(m.startswith(f"{name}.") for m in self._modules):
            return None
        return importlib.machinery.ModuleSpec(name, self)  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Program(spec.name, self._side)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def reflect(side: TestsSide, modules: set[str]) -> None:
    """Has functions that look into objects do so where these are."""
    for module, names in _REFLECTING.items():
        if module not in modules:
            continue
        __import__(module)
        for name in names:
            setattr(sys.modules[module], name, _there(side, module, name))


def _there(side: TestsSide, module: str, name: str) -> Callable[..., Any]:
    here: Callable[..., Any] = getattr(sys.modules[module], name)

    def function(*arguments: Any, **named: Any) -> Any:
        if arguments and isinstance(arguments[0], Mirror | MirrorType):
            return side.ask("standard", module, name, arguments, tuple(named.items()))
        return here(*arguments, **named)

    return function

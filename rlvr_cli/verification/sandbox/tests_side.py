"""The process of the tests: what it lets a program do, and where its tests find the program.

It runs inside the sandbox and imports the standard library alone.
"""

import ast
import builtins
import contextlib
import importlib.machinery
import sys
import types
from collections.abc import Callable
from typing import Any

from rlvr_cli.verification.sandbox import mirrors, objects, streams
from rlvr_cli.verification.sandbox.child import Child, OutOfTime
from rlvr_cli.verification.sandbox.messages import Gone
from rlvr_cli.verification.sandbox.mirrors import Mirror, MirrorType

TESTS = "__main__"  # the name of the tests' own module
_FIRST = 2  # its keys of shared containers are even
_MODULES = ("solution", "main", "program", "submission", "your_module", "my_module", "module",
            "code_solution", "answer", "candidate", "implementation")  # fmt: skip
_NAMES = {"__name__", "__qualname__", "__doc__"}  # what a program may read of a function
_INNER = ("gi_", "cr_", "ag_", "f_", "tb_", "co_", "func_")  # what leads to frames and code
_REFLECTING = {  # functions that look into objects, so they must run where these are
    "dataclasses": ("asdict", "astuple", "fields", "replace", "is_dataclass"),
    "inspect": ("signature", "isfunction", "ismethod", "iscoroutinefunction", "isabstract",
                "isgenerator", "isgeneratorfunction", "getdoc", "getfullargspec", "getmembers",
                "isasyncgenfunction", "isroutine", "iscoroutine", "isawaitable", "getmro"),
    "typing": ("get_type_hints",),
    "asyncio": ("iscoroutinefunction",),
}  # fmt: skip


class Untestable(BaseException):
    """What tests do that cannot be done across processes."""


class TestsSide(objects.Peer):
    """Asks the program, and does for it what it may ask of what it was given."""

    gives_results = False
    sends_functions = True

    def __init__(self, child: Child, words: "Words") -> None:
        super().__init__(self._exchange_with, _FIRST)
        self._child, self._words = child, words
        first = child.receive()
        try:
            self.names = {str(name) for name in first["names"]}
            self._missing = [str(name) for name in first["missing"]]
        except (KeyError, TypeError) as error:
            raise Gone("it answered what is no value") from error
        self._stdout: Any = None
        self.was_called = False
        self.last_error: BaseException | None = None  # that the program raised
        self.ended: BaseException | None = None  # how the conversation did
        self.scope: dict[str, Any] = {}

    def ask(self, *request: Any) -> Any:
        if self.ended:
            raise self.ended
        if request[0] not in ("global", "set_global"):
            self.was_called = True
            self._define_missing()
        try:
            return super().ask(*request)
        except (Gone, OutOfTime, Untestable) as error:
            self.ended = error
            raise
        except StopIteration as error:
            self.last_error = error
            if request[0] == "op" or "StopIteration" in self._words.names:
                raise
            # It would end a loop over calls as if nothing were left to test.
            raise RuntimeError("a function raised StopIteration") from error
        except BaseException as error:
            self.last_error = error
            raise

    def program_global(self, name: str) -> Any:
        """What the program has under a name; an AttributeError if nothing."""
        if name not in self.names:
            raise AttributeError(f"the program defines no {name}")
        return self.ask("global", name)

    def decode(self, message: objects.Message) -> Any:
        if not isinstance(message, dict) or "too_large" in message:
            raise Untestable("the tests pass more than 16 MiB")
        try:
            root = super().decode(message)
            printed = [message.get(key, "") for key in ("out", "err")]
            if not isinstance(root, tuple) or not root:
                raise ValueError("no answer")
            if root[0] in ("value", "error") and len(root) != 2:
                raise ValueError("no answer")
            if root[0] == "error" and not isinstance(root[1], BaseException):
                raise ValueError("no error")
            self._print(*map(str, printed))
        except ImportError as error:
            raise Untestable(f"the program uses what the tests lack: {error}") from error
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
                ValueError) as error:  # fmt: skip
            raise Gone("it answered what is no value") from error
        return root

    def answer(self, request: tuple[Any, ...]) -> objects.Message:
        if request[0] not in ("call", "get", "set", "op", "line", "items", "item", "copy"):
            raise Gone("it asked for what no program may")
        try:
            return super().answer(request)
        except (KeyboardInterrupt, SystemExit) as error:
            return self.encode(("error", error))

    def printed_to(self, stdout: Any) -> None:
        """Says which stdout nobody looks at."""
        self._stdout = stdout

    def _read_function(self, *_: Any) -> Any:
        raise ValueError("a program's functions run where it does")

    def _read_module(self, decoder: Any, name: str) -> Any:
        if name.partition(".")[0] not in self._words.names:
            raise ValueError("no module that the tests name")
        return super()._read_module(decoder, name)

    def _print(self, out: str, err: str) -> None:
        if streams.CUT in out and sys.stdout is not self._stdout:
            raise Gone("it printed more than 1 MiB during a call")
        if out:
            sys.stdout.write(out)
        if err:
            sys.stderr.write(err)

    def _exchange_with(self, message: objects.Message) -> objects.Message:
        return self._child.ask(message)

    def _define_missing(self) -> None:
        """Gives the program the classes that only the tests define, such as a `ListNode`."""
        for name in list(self._missing):
            value = self.scope.get(name)
            if isinstance(value, type) and value.__module__ == TESTS:
                self._missing.remove(name)
                if name.startswith("Test") or "unittest" in str(value.__mro__):
                    continue
                super().ask("set_global", name, value)

    def trusts(self, kind: type) -> bool:
        """Whether tests name a class, and mean the one that the program has under that name."""
        name, known = kind.__name__, self._words.trusted
        if name not in known:
            known[name] = None  # as asking for it may ask this again
            known[name] = self._meant(name)
        return known[name] is kind

    def _meant(self, name: str) -> Any:
        """What tests mean by a name, as far as the program has it."""
        words = self._words
        bases = {base for base, attribute in words.dotted if attribute == name}
        if name in self.names and (name in words.names or bases & words.modules):
            return self.ask("global", name)
        for base in bases & self.names:
            with contextlib.suppress(AttributeError):
                return self.ask("get", self.ask("global", base), name)
        return None

    def derive(self, name: str) -> Any:
        self.ended = Untestable(f"`{name}` of the tests derives from a class of the program")
        raise self.ended

    def on_line(self, prompt: str | None) -> str:
        """A line of the tests' own stdin, or of what they put in place of `input`."""
        if prompt is None:
            return str(sys.stdin.readline())
        return str(builtins.input(prompt))

    def on_get(self, value: Any, name: str) -> Any:
        if not _may_read(value, name):
            raise AttributeError(name)
        return super().on_get(value, name)

    def on_set(self, value: Any, name: str, new: Any) -> None:
        if type(value).__module__ != TESTS or isinstance(value, type) or name.startswith("__"):
            raise AttributeError(name)
        super().on_set(value, name, new)

    def on_op(self, kind: Any, name: str, value: Any, arguments: Any) -> Any:
        if name not in mirrors.FORWARDED:
            raise AttributeError(name)
        return super().on_op(None, name, value, arguments)

    def on_copy(self, value: Any) -> Any:
        if type(value).__module__ != TESTS:
            raise TypeError("it cannot be copied")
        return super().on_copy(value)


def _may_read(value: Any, name: str) -> bool:
    """Whether a program may read an attribute of what tests gave it: nothing leads to the tests."""
    if isinstance(value, types.ModuleType):
        return False
    if callable(value) and isinstance(
        value, types.FunctionType | types.MethodType | types.BuiltinFunctionType
    ):
        return name in _NAMES
    if name.startswith("__"):
        return name in _NAMES | mirrors.FORWARDED
    if type(value).__module__ == TESTS or getattr(value, "__module__", None) == TESTS:
        return True
    return not name.startswith(("_", "assert", *_INNER))


class Words:
    """The names that the text of tests has."""

    def __init__(self, tree: ast.AST) -> None:
        nodes = list(ast.walk(tree))
        self.names = {node.id for node in nodes if isinstance(node, ast.Name)}
        self.dotted = {
            (node.value.id, node.attr)
            for node in nodes
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        }
        self.bases = {base for base, _ in self.dotted}
        imports = [alias for n in nodes if isinstance(n, ast.Import) for alias in n.names]
        self.imports = {alias.name for alias in imports}
        self.modules = {alias.asname or alias.name for alias in imports}  # as tests call them
        self.called = [
            node.func.id
            for node in nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        ]
        self.imported: dict[str, set[str]] = {}
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = self.imported.setdefault(node.module, set())
                names |= {alias.name for alias in node.names}
                self.names |= {alias.name for alias in node.names}
        self.in_classes = {
            name.id
            for node in nodes
            if isinstance(node, ast.ClassDef)
            for part in node.body
            if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
            for name in ast.walk(part)
            if isinstance(name, ast.Name)
        }
        waits = (ast.AsyncFunctionDef, ast.Await)
        self.is_async = "asyncio" in self.names or any(isinstance(n, waits) for n in nodes)
        self.trusted: dict[str, Any] = {}


class Scope(dict[str, Any]):
    """The tests' global names; one that is missing is the program's."""

    def __init__(self, side: TestsSide, words: Words, given: dict[str, Any]) -> None:
        super().__init__(given)
        self["__name__"] = TESTS
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
            if names <= side.names | {"*"} and module.partition(".")[0] not in sys.stdlib_module_names
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


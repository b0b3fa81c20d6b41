"""The process of the tests: what it lets a program do, and where its tests find the program.

It runs inside the sandbox and imports only the standard library.
"""

import builtins
import contextlib
import sys
import types
from collections.abc import Callable
from typing import Any

from rlvr_cli.verification.sandbox import mirrors, objects, records, streams
from rlvr_cli.verification.sandbox.child import Child, OutOfTime
from rlvr_cli.verification.sandbox.messages import Gone
from rlvr_cli.verification.sandbox.words import Words

TESTS = "__main__"  # the name of the tests' own module
_FIRST = 2  # its keys of shared containers are even
_PREPARING = {  # what is no use of the program
    "global", "set_global", "patch", "unpatch", "environment", "report",
}  # fmt: skip
_SERVED = {
    "call", "get", "set", "op", "line", "items", "item", "copy", "changed", "warned", "logged",
}  # fmt: skip
_NAMES = {"__name__", "__qualname__", "__doc__"}  # what a program may read of a function
_INNER = ("gi_", "cr_", "ag_", "f_", "tb_", "co_", "func_")  # what leads to frames and code


class Untestable(BaseException):
    """What tests do that cannot be done across processes."""


class TestsSide(objects.Peer):
    """Asks the program, and does for it what it may ask of what it was given."""

    gives_results = False
    sends_functions = True

    def __init__(self, child: Child, words: Words) -> None:
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
        self.before_asking: list[Callable[[], None]] = []  # what must be sent to the program first
        self._passed: list[Any] = []  # the arguments of the calls that are under way

    def ask(self, *request: Any) -> Any:
        if self.ended:
            raise self.ended
        if request[0] not in _PREPARING:
            self.was_called = True
            self._define_missing()
            for send in [*self.before_asking]:
                send()
        self._passed.append(request[2] if request[0] == "call" else ())
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
        finally:
            self._passed.pop()

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
        if request[0] not in _SERVED:
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

    def on_changed(self, number: int, array: Any) -> None:
        """Gives an array that was passed the values that the program gave it."""
        passed = self._passed[-1][number]
        if not records.is_array(passed) or type(passed) is not type(array):
            raise TypeError("it was no array")
        passed[:] = array

    def on_line(self, prompt: str | None) -> str:
        """A line of the tests' own stdin, or of what they put in place of `input`."""
        if prompt is None:
            return str(sys.stdin.readline())
        return str(builtins.input(prompt))

    def on_warned(self, message: Any) -> None:
        from rlvr_cli.verification.sandbox import reports

        reports.warned(message)

    def on_logged(self, name: str, level: int, message: str) -> None:
        from rlvr_cli.verification.sandbox import reports

        reports.logged(name, level, message)

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

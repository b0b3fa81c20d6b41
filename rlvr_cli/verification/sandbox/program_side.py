"""The process of the program: loads it, and does what the tests' process asks for.

It runs inside the sandbox and imports only the standard library.
"""

import __future__

import _thread
import builtins
import contextlib
import os
import select
import sys
import types
from typing import Any

from rlvr_cli.verification.sandbox import messages, objects, records, streams
from rlvr_cli.verification.sandbox.child import NAME, limit
from rlvr_cli.verification.sandbox.messages import Gone

_FIRST = 1  # its keys of shared containers are odd
_TOO_LARGE = {"too_large": True}  # the answer to what no message may hold


class ProgramSide(objects.Peer):
    """Has what a program defines, its stdin and its stdout."""

    def __init__(self, asks: int, answers: int) -> None:
        super().__init__(self._exchange_over, _FIRST)
        self._asks, self._answers = asks, answers
        self._out, self._err = streams.Printed(), streams.Printed()
        self._is_asked = False
        self._is_serving = False  # whether the tests wait for it
        self._thread = _thread.get_ident()
        self._replaced: dict[tuple[str, str], Any] = {}
        self.module = types.ModuleType(NAME)
        sys.modules[NAME] = self.module
        sys.stdout, sys.stderr = streams.writer(self._out), streams.writer(self._err)
        sys.stdin = streams.reader(self._line)
        self._streams = sys.stdout, sys.stderr
        builtins.input = self._input
        for name in ("exit", "quit"):
            setattr(builtins, name, sys.exit)

    def load(self, program: str, *, is_lazy: bool = False) -> None:
        """Runs the program; what it had defined when it ended itself stays.

        Its annotations stay text where they are of classes that only the tests define.
        """
        scope = self.module.__dict__
        scope["__builtins__"] = builtins
        scope["__file__"] = f"{NAME}.py"
        flags = __future__.annotations.compiler_flag if is_lazy else 0
        with contextlib.suppress(SystemExit):
            exec(compile(program, NAME, "exec", flags, dont_inherit=True), scope)
        for stream in (self._out, self._err):
            stream.take()

    def run(self) -> None:
        """Answers until the other side ends."""
        self._is_asked = True
        try:
            while (message := messages.get(self._asks)) is not None:
                self._send(self.answer_message(message))
        except Gone:
            while os.read(self._asks, 1 << 20):  # until the other side has sent it all
                if not select.select([self._asks], [], [], 0.1)[0]:
                    break
            messages.send(self._answers, _TOO_LARGE)

    def answer_message(self, message: objects.Message) -> objects.Message:
        try:
            request = self.decode(message)
            self._is_serving = True
            try:
                return self.answer(request)
            finally:
                self._is_serving = False
        except Exception as error:
            return self.encode(("error", error))
        except BaseException as error:
            if not isinstance(error, SystemExit | KeyboardInterrupt | GeneratorExit):
                raise
            return self.encode(("error", error))

    def names(self) -> list[str]:
        return [name for name in self.module.__dict__ if not name.startswith("__")]

    def missing(self) -> list[str]:
        """The names that its functions use and nothing defines."""
        scope, names, todo = self.module.__dict__, set(), [*self.module.__dict__.values()]
        while todo:
            value = todo.pop()
            if isinstance(value, types.FunctionType) and value.__module__ == NAME:
                value = value.__code__
            if isinstance(value, type) and value.__module__ == NAME:
                todo += [v for v in vars(value).values() if isinstance(v, types.FunctionType)]
            elif isinstance(value, types.CodeType):
                todo += [c for c in value.co_consts if isinstance(c, types.CodeType)]
                names |= set(value.co_names)
        return sorted(n for n in names if n not in scope and not hasattr(builtins, n))

    def on_global(self, name: str) -> Any:
        try:
            return self.module.__dict__[name]
        except KeyError:
            raise AttributeError(f"module '{NAME}' has no attribute '{name}'") from None

    def on_set_global(self, name: str, value: Any) -> None:
        self.module.__dict__[name] = value

    def on_del_global(self, name: str) -> None:
        self.module.__dict__.pop(name, None)

    def on_call(self, function: Any, arguments: Any, named: Any) -> Any:
        """Calls, and sends back the arrays among the arguments that the call has changed."""
        arrays = [(n, a, a.tobytes()) for n, a in enumerate(arguments) if records.is_array(a)]
        try:
            return function(*arguments, **dict(named))
        finally:
            for number, array, before in arrays:
                if array.tobytes() != before:
                    self.ask("changed", number, array)

    def on_standard(self, module: str, name: str, arguments: Any, named: Any) -> Any:
        """A function of the standard library that looks into objects."""
        __import__(module)
        return getattr(sys.modules[module], name)(*arguments, **dict(named))

    def on_patch(self, module: str, name: str, value: Any) -> None:
        """What tests put in place of a name of the standard library."""
        __import__(module)
        owner = sys.modules[module]
        self._replaced.setdefault((module, name), getattr(owner, name, None))
        setattr(owner, name, value)

    def on_unpatch(self, module: str, name: str) -> None:
        if (module, name) in self._replaced:
            setattr(sys.modules[module], name, self._replaced.pop((module, name)))

    def on_environment(self, arguments: Any, variables: Any) -> None:
        """The arguments and variables that tests have."""
        sys.argv = list(arguments)
        os.environ.clear()
        os.environ.update(variables)

    def on_report(self) -> None:
        """Sends warnings and log records to the tests, which expect them."""
        from rlvr_cli.verification.sandbox import reports

        reports.send(self._report)

    def _report(self, *report: Any) -> None:
        if self._is_serving and _thread.get_ident() == self._thread:
            self.ask(*report)

    def on_wait(self, coroutine: Any) -> Any:
        import asyncio

        from rlvr_cli.verification.sandbox import loops

        loops.install()
        return asyncio.run(coroutine)

    def _send(self, message: objects.Message) -> None:
        for key, text in (("out", self._out), ("err", self._err)):
            if printed := text.take():
                message[key] = printed
        messages.send(self._answers, message)

    def _exchange_over(self, message: objects.Message) -> objects.Message:
        self._send(message)
        answer = messages.get(self._asks)
        if answer is None:
            raise Gone("the tests ended")
        return answer  # type: ignore[no-any-return]

    def _line(self) -> str:
        return str(self.ask("line", None)) if self._is_asked else ""

    def _input(self, prompt: object = "", /) -> str:
        if not self._is_asked:
            raise EOFError("there is no input before the tests")
        return str(self.ask("line", str(prompt)))


def serve(job: dict[str, Any], asks: int, answers: int) -> None:
    """The child: runs the program, reports what it defines, and answers requests."""
    side = ProgramSide(asks, answers)
    program = job["program"]
    if "asyncio" in program:
        from rlvr_cli.verification.sandbox import loops

        loops.install()
    limit(job)
    try:
        side.load(program, is_lazy=bool(job.get("is_lazy")))
        messages.send(answers, {"names": side.names(), "missing": side.missing()})
    except BaseException as error:
        messages.send(answers, raised(error))
        return
    side.run()


def raised(error: BaseException) -> dict[str, str]:
    """What a program raised before there were any tests."""
    try:
        text = str(error)[:200]
    except BaseException:
        text = ""
    return {"raised": type(error).__name__, "text": text}

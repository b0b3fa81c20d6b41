"""Runs a program against tests that it cannot touch.

Two processes: this one holds the tests and the answer's place, its child runs the program under a
filter of system calls. Tests call the program's functions by messages of plain data, so that a
program that exits, patches `assert`, compares equal to all or looks through its frames changes
nothing but its own values. It runs inside the sandbox and imports the standard library alone.
"""

import ast
import builtins
import contextlib
import ctypes
import importlib
import json
import math
import os
import resource
import selectors
import signal
import struct
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from rlvr_cli.sandbox import namespaces, seccomp, values

_LENGTH = struct.Struct("!I")
_MOST = 16 << 20  # bytes of a message
_NAME = "solution"
_OUT_OF_MEMORY = 99  # the exit code of a program that ran out of it


class Gone(BaseException):
    """The program ended, or answered what is no answer."""


class OutOfTime(BaseException):
    """The program used up its time."""


def main(job: dict[str, Any], tests: Callable[[], dict[str, Any]]) -> None:
    """Enters the sandbox that the job names, runs it, writes what came of it, and ends.

    The child that knows the program is forked before the tests are read.
    """
    out = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(null, descriptor)
    if job["kind"] == "unshare":
        namespaces.enter(job["folders"], job["file_bytes"] * 16)
    namespaces.drop_capabilities()
    _hide()
    serve, check = _STYLES[job["style"]]
    try:
        made = check(_Child(job, serve), tests())
    except Gone as error:
        made = {"passed": False, "reason": str(error)}
    except (MemoryError, OutOfTime) as error:
        made = {"status": "oom" if isinstance(error, MemoryError) else "timeout"}
    except BaseException as error:
        made = {"passed": False, "reason": f"{type(error).__name__}: {error}"[:200]}
    os.write(out, json.dumps(made).encode())
    os._exit(0)


def _hide() -> None:
    """Keeps the child from reading or writing this process's memory."""
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE


def _limit(job: dict[str, Any]) -> None:
    seconds = max(1, math.ceil(job["seconds"]))
    for limit, most in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, job["memory_bytes"]),
        (resource.RLIMIT_FSIZE, job["file_bytes"]),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_NPROC, 64),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (most, most))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a file that is too large is an OSError
    if job["kind"] != "none" or seccomp.is_known():
        seccomp.load()


class _Child:
    """The process that knows the program and nothing of the tests."""

    def __init__(self, job: dict[str, Any], serve: Callable[[dict, int, int], None]) -> None:
        asks, self._ask = os.pipe()
        self._answer, answers = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                _keep(asks, answers)
                serve(job, asks, answers)
            finally:
                os._exit(0)
        os.close(asks)
        os.close(answers)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request; what the program raised is raised here."""
        try:
            _send(self._ask, request)
        except BrokenPipeError:
            self._bury()
        return self.receive()

    def receive(self) -> dict[str, Any]:
        try:
            answer = _get(self._answer)
        except ValueError as error:
            raise Gone("it answered what is no message") from error
        if answer is None:
            self._bury()
        if not isinstance(answer, dict):
            raise Gone("it answered what is no message")
        if "raised" in answer:
            _raise_as(str(answer["raised"]), str(answer.get("text", ""))[:200])
        return answer

    def _bury(self) -> NoReturn:
        """Says how the child ended, or that it closed its pipes."""
        for _ in range(100):
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                _, status = os.waitpid(self.pid, 0)
                _raise_for(os.waitstatus_to_exitcode(status))
            time.sleep(0.005)
        raise Gone("it closed its pipes")


def _keep(*descriptors: int) -> None:
    """Closes all others; what a program prints goes nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    for descriptor in set(range(3, 256)) - set(descriptors):
        with contextlib.suppress(OSError):
            os.close(descriptor)


def _raise_as(name: str, text: str) -> NoReturn:
    """Raises the built-in exception of a name, so that tests of errors can catch it."""
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        raise kind(text)
    raise Gone(f"{name}: {text}")


def _raise_for(code: int) -> NoReturn:
    if code == -signal.SIGXCPU:
        raise OutOfTime
    name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    raise Gone(f"it ended with {name}")


def _serve_calls(job: dict[str, Any], asks: int, answers: int) -> None:
    """The child: runs the program, says what it defines, and calls what it is asked to."""
    scope: dict[str, Any] = {"__name__": _NAME, "__builtins__": builtins}
    program = job["program"]
    _limit(job)
    try:
        exec(compile(program, _NAME, "exec"), scope)
        _send(answers, {"names": [name for name, value in scope.items() if callable(value)]})
    except BaseException as error:
        _send(answers, _raised(error))
        return
    while (request := _get(asks)) is not None:
        try:
            arguments, named = values.decode(request["arguments"]), values.decode(request["named"])
            made = scope[request["name"]](*arguments, **named)
            _send(answers, {"value": values.encode(made)})
        except BaseException as error:
            _send(answers, _raised(error))


def _raised(error: BaseException) -> dict[str, str]:
    try:
        text = str(error)[:200]
    except BaseException:
        text = ""
    return {"raised": type(error).__name__, "text": text}


def _send(descriptor: int, message: Any) -> None:
    data = json.dumps(message).encode()
    rest = memoryview(_LENGTH.pack(len(data)) + data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _get(descriptor: int) -> Any:
    header = _read(descriptor, _LENGTH.size)
    if header is None:
        return None
    (size,) = _LENGTH.unpack(header)
    if size > _MOST:
        raise Gone("it answered more than 16 MiB")
    data = _read(descriptor, size)
    return None if data is None else json.loads(data)


def _read(descriptor: int, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        piece = os.read(descriptor, size - len(data))
        if not piece:
            return None
        data += piece
    return bytes(data)


def _against_tests(child: _Child, rest: dict[str, Any]) -> dict[str, Any]:
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


def _proxy(child: _Child, name: str) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        request = {"arguments": values.encode(arguments), "named": values.encode(named)}
        answer = child.ask({"name": name, **request})
        try:
            return values.decode(answer["value"])
        except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
            raise Gone("it answered what is no value") from error

    return call


def _defined_by(prompt: str) -> dict[str, Any]:
    """What a prompt defines, for tests that use its helpers; it may be no whole program."""
    scope: dict[str, Any] = {"__name__": "tests"}
    with contextlib.suppress(Exception):
        exec(compile(prompt, "prompt", "exec"), scope)
    return scope


def _against_outputs(child: _Child, rest: dict[str, Any]) -> dict[str, Any]:
    """Inputs on stdin and what a program must write on stdout for each."""
    for number, (given, wanted) in enumerate(zip(rest["inputs"], rest["outputs"], strict=True), 1):
        answer = child.ask({"input": given})
        if answer["output"] is None:
            return {"passed": False, "reason": f"input {number}: more output than allowed"}
        if code := answer["code"]:
            if code == _OUT_OF_MEMORY:
                raise MemoryError
            _raise_for(code)
        if answer["output"].split() != wanted.split():
            return {"passed": False, "reason": f"input {number}: another output"}
    return {"passed": True}


def _serve_runs(job: dict[str, Any], asks: int, answers: int) -> None:
    """The child: a process of the program's own for each input."""
    while (request := _get(asks)) is not None:
        output, code = _output_of(job, request["input"])
        _send(answers, {"output": output, "code": code})


def _output_of(job: dict[str, Any], given: str) -> tuple[str | None, int]:
    """What the program writes to stdout, None if that is more than the limit; its exit code."""
    source, feed = os.pipe()
    out, sink = os.pipe()
    pid = os.fork()
    if not pid:
        os.dup2(source, 0)
        os.dup2(sink, 1)
        os.closerange(3, 256)
        _run_main(job)
    os.close(source)
    os.close(sink)
    data = memoryview(given.encode(errors="replace"))
    made = _exchange(feed, data, out, job["output_bytes"])
    if made is None:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    text = None if made is None else made.decode(errors="replace")
    return text, os.waitstatus_to_exitcode(status)


def _exchange(feed: int, data: memoryview, out: int, most: int) -> bytes | None:
    """Feeds a program's stdin while it reads its stdout, so that neither waits for the other."""
    made = bytearray()
    os.set_blocking(feed, False)
    with selectors.DefaultSelector() as selector, open(out, "rb"), open(feed, "wb") as inward:
        selector.register(out, selectors.EVENT_READ)
        selector.register(feed, selectors.EVENT_WRITE)
        while True:
            for key, _ in selector.select():
                if key.fd == out:
                    piece = os.read(out, 65536)
                    made += piece
                    if len(made) > most:
                        return None
                    if not piece:
                        return bytes(made)
                    continue
                try:
                    data = data[os.write(feed, data) :] if data else data
                except BrokenPipeError:
                    data = memoryview(b"")
                if not data:
                    selector.unregister(feed)
                    inward.close()


def _run_main(job: dict[str, Any]) -> NoReturn:
    """The grandchild: the program as a script; its exit code says how it ended."""
    code = 1
    try:
        sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115
        program = job["program"]
        _limit(job)
        exec(compile(program, _NAME, "exec"), {"__name__": "__main__"})
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except MemoryError:
        code = _OUT_OF_MEMORY
    except BaseException:
        code = 1
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        os._exit(code & 0xFF)


_STYLES = {
    "tests": (_serve_calls, _against_tests),
    "outputs": (_serve_runs, _against_outputs),
}

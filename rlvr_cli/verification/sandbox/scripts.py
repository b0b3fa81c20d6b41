"""Style `outputs`: what a program writes to stdout when it is given inputs on stdin.

It runs inside the sandbox and imports only the standard library.
"""

import atexit
import contextlib
import os
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

from rlvr_cli.verification.sandbox import comparing, counting, environment, messages
from rlvr_cli.verification.sandbox.child import NAME, Child, OutOfTime, limit, raise_for
from rlvr_cli.verification.sandbox.messages import Gone

_OUT_OF_MEMORY = 99  # the exit code of a program that ran out of it
_OUTPUT_BYTES = 1 << 20  # the least of a program's that is read; more where more is expected
_ERROR_BYTES = 2048  # of the end of stderr


class _BadJudge(Exception):
    """A gold's own judge cannot judge."""


def serve(job: dict[str, Any], asks: int, answers: int) -> None:
    """The child: a process of the program's own for each input."""
    while (request := messages.get(asks)) is not None:
        messages.send(answers, _run(job, **request))


def check(child: Child, rest: dict[str, Any]) -> dict[str, Any]:
    """Inputs on stdin and what a program must write on stdout for each."""
    try:
        judge = _judge(rest)
    except Exception as error:
        return {"status": "bad_gold", "reason": f"its checker cannot be loaded: {error!r}"[:160]}
    late: list[str] = []

    def tested(number: int, given: str, wanted: str) -> str | None:
        most = _OUTPUT_BYTES << (2 * len(wanted) // _OUTPUT_BYTES).bit_length()
        seconds = rest.get("test_seconds")
        answer = child.ask({"input": given, "seconds": seconds, "most": most})
        if status := _exceeded(answer):
            if not rest.get("goes_on"):
                raise MemoryError if status == "oom" else OutOfTime
            late.append(status)
            return f"input {number}: {status}"
        why = _failed(answer) or judge(given, answer["output"], wanted)
        return None if why is None else f"input {number}: {why}"

    pairs = enumerate(zip(rest["inputs"], rest["outputs"], strict=True), 1)
    tests = [partial(tested, number, *pair) for number, pair in pairs]
    if rest.get("counts"):
        counting.expect(len(tests))
    try:
        result = counting.outcome(tests)
    except _BadJudge as error:
        return {"status": "bad_gold", "reason": str(error)}
    return {"status": late[0], "reason": result["reason"]} if late else result


def _exceeded(answer: dict[str, Any]) -> str | None:
    """The limit that a program went over, as the status that says so."""
    if answer["is_late"] or answer["code"] == -signal.SIGXCPU:
        return "timeout"
    return "oom" if answer["code"] == _OUT_OF_MEMORY else None


def _failed(answer: dict[str, Any]) -> str | None:
    """How a program failed, whatever it wrote."""
    if answer["output"] is None:
        return "more output than allowed"
    if not answer["code"]:
        return None
    if answer["code"] > 0 and answer["error"].strip():
        return str(answer["error"].strip().splitlines()[-1])[:160]
    try:
        raise_for(answer["code"])
    except Gone as error:
        return str(error)


def _judge(rest: dict[str, Any]) -> Callable[[str, str, str], str | None]:
    """What says why an output is not right: a comparison, or the gold's own function `check`."""
    if not rest.get("checker"):
        by_line, tolerance = bool(rest.get("by_line")), float(rest.get("tolerance") or 0.0)

        def compare(given: str, output: str, wanted: str) -> str | None:
            if comparing.same_output(output, wanted, tolerance, by_line=by_line):
                return None
            return f"it wrote {_short(output)}, expected {_short(wanted)}"

        return compare
    scope: dict[str, Any] = {"__name__": "checker"}
    exec(compile(rest["checker"], "tests", "exec"), scope)
    own = scope["check"]

    def ask(given: str, output: str, wanted: str) -> str | None:
        try:
            is_right = own(given, output, wanted)
        except Exception as error:
            try:
                own(given, wanted, wanted)
            except Exception as same:
                raise _BadJudge(f"its checker fails on what is expected: {same!r}"[:160]) from same
            return f"its judge refused {_short(output)}: {type(error).__name__}: {error}"[:160]
        return None if is_right else f"its judge refused {_short(output)}"

    return ask


def _short(text: str) -> str:
    words = " ".join(text.split())
    return f"`{words[:40]}{'...' * (len(words) > 40)}`" if words else "nothing"


def _run(job: dict[str, Any], input: str, seconds: float | None, most: int) -> dict[str, Any]:
    """What the program writes to stdout, None if that is more than the limit, and how it ended."""
    source = _input(input.encode(errors="surrogatepass"))
    out, sink = os.pipe()
    errors, error_sink = os.pipe()
    pid = os.fork()
    if not pid:
        for number, descriptor in enumerate((source, sink, error_sink)):
            os.dup2(descriptor, number)
        os.closerange(3, 256)
        _run_main(job, seconds)
    for descriptor in (source, sink, error_sink):
        os.close(descriptor)
    output, error, is_late = _read(out, errors, most, seconds)
    if output is None or is_late:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return {
        "output": None if output is None else output.decode(errors="replace"),
        "error": error.decode(errors="replace"),
        "code": os.waitstatus_to_exitcode(status),
        "is_late": is_late,
    }


def _input(data: bytes) -> int:
    """A descriptor of a file that holds the input, as programs ask how large it is.

    No other process finds the file, and none stays behind. Where it cannot be written the input
    comes through a pipe.
    """
    path = f"stdin-{os.getpid()}"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            source = os.open(path, os.O_RDONLY)
            os.unlink(path)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            return source
        finally:
            os.close(descriptor)
    except OSError:
        return _piped(data)


def _piped(data: bytes) -> int:
    """A pipe that another process of its own fills."""
    source, feed = os.pipe()
    if not os.fork():
        with contextlib.suppress(BaseException):
            os.close(source)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(feed, rest) :]
        os._exit(0)
    os.close(feed)
    return source


def _read(
    out: int, errors: int, most: int, seconds: float | None
) -> tuple[bytes | None, bytes, bool]:
    """Stdout, None if it is too much, the end of stderr, and whether its time was up."""
    output, error = bytearray(), bytearray()
    deadline = time.monotonic() + seconds if seconds else None
    with selectors.DefaultSelector() as selector, open(out, "rb"), open(errors, "rb"):
        selector.register(out, selectors.EVENT_READ)
        selector.register(errors, selectors.EVENT_READ)
        while selector.get_map():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return bytes(output), bytes(error), True
            for key, _ in selector.select(left):
                piece = os.read(key.fd, 65536)
                if not piece:
                    selector.unregister(key.fd)
                elif key.fd == out:
                    output += piece
                else:
                    error = (error + piece)[-_ERROR_BYTES:]
                if len(output) > most:
                    return None, bytes(error), False
    return bytes(output), bytes(error), False


def _run_main(job: dict[str, Any], seconds: float | None) -> NoReturn:
    """The grandchild: the program as a script; its exit code says how it ended."""
    code = 1
    try:
        atexit._clear()
        environment.open_streams()
        program = job["program"]
        environment.prepare(program)
        limit(job if seconds is None else {**job, "seconds": min(seconds, job["seconds"])})
        scope = environment.module("__main__")
        exec(compile(program, NAME, "exec"), scope)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if code and not isinstance(error.code, int):
            with contextlib.suppress(BaseException):
                print(error.code, file=sys.stderr)
    except MemoryError:
        code = _OUT_OF_MEMORY
    except BaseException:
        with contextlib.suppress(BaseException):
            traceback.print_exc()
    finally:
        environment.at_end()
        os._exit(code & 0xFF)

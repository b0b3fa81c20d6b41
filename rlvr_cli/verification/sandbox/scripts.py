"""Style `outputs`: what a program writes to stdout when it is given inputs on stdin.

It runs inside the sandbox and imports the standard library alone.
"""

import contextlib
import os
import selectors
import signal
import sys
from typing import Any, NoReturn

from rlvr_cli.verification.sandbox import messages
from rlvr_cli.verification.sandbox.child import NAME, Child, limit, raise_for

_OUT_OF_MEMORY = 99  # the exit code of a program that ran out of it


def serve(job: dict[str, Any], asks: int, answers: int) -> None:
    """The child: a process of the program's own for each input."""
    while (request := messages.get(asks)) is not None:
        output, code = _output_of(job, request["input"])
        messages.send(answers, {"output": output, "code": code})


def check(child: Child, rest: dict[str, Any]) -> dict[str, Any]:
    """Inputs on stdin and what a program must write on stdout for each."""
    for number, (given, wanted) in enumerate(zip(rest["inputs"], rest["outputs"], strict=True), 1):
        answer = child.ask({"input": given})
        if answer["output"] is None:
            return {"passed": False, "reason": f"input {number}: more output than allowed"}
        if code := answer["code"]:
            if code == _OUT_OF_MEMORY:
                raise MemoryError
            raise_for(code)
        if answer["output"].split() != wanted.split():
            return {"passed": False, "reason": f"input {number}: another output"}
    return {"passed": True}


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
    output = _exchange(feed, data, out, job["output_bytes"])
    if output is None:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    text = None if output is None else output.decode(errors="replace")
    return text, os.waitstatus_to_exitcode(status)


def _exchange(feed: int, data: memoryview, out: int, most: int) -> bytes | None:
    """Feeds a program's stdin while it reads its stdout, so that neither waits for the other."""
    output = bytearray()
    os.set_blocking(feed, False)
    with selectors.DefaultSelector() as selector, open(out, "rb"), open(feed, "wb") as inward:
        selector.register(out, selectors.EVENT_READ)
        selector.register(feed, selectors.EVENT_WRITE)
        while True:
            for key, _ in selector.select():
                if key.fd == out:
                    piece = os.read(out, 65536)
                    output += piece
                    if len(output) > most:
                        return None
                    if not piece:
                        return bytes(output)
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
        limit(job)
        exec(compile(program, NAME, "exec"), {"__name__": "__main__"})
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

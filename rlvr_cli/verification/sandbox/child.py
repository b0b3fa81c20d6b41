"""The process that runs the program: requests to it, how it ended, and what it may use.

It runs inside the sandbox and imports only the standard library.
"""

import builtins
import math
import os
import resource
import signal
import time
from collections.abc import Callable
from typing import Any, NoReturn

from rlvr_cli.verification.sandbox import messages, seccomp
from rlvr_cli.verification.sandbox.messages import Gone

READY = "ready"  # what it says before it runs the program
NAME = "solution"  # of the program
_THREADS = 64


class OutOfTime(BaseException):
    """The program used up its time."""


class Child:
    """The process that has the program, but not the tests."""

    def __init__(self, serve: Callable[[int, int], None]) -> None:
        """Forks it; it answers on the second descriptor the requests on the first."""
        asks, self._ask = os.pipe()
        self._answer, answers = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                serve(asks, answers)
            finally:
                os._exit(0)
        os.close(asks)
        os.close(answers)

    def begin(self, seconds: float) -> None:
        """Waits until it is about to run the program, for which it has so many seconds of CPU."""
        self._seconds = seconds
        if messages.get(self._answer) != READY:
            raise RuntimeError("the process of the program did not begin")

    def ask(self, request: dict[str, Any], seconds: float | None = None) -> dict[str, Any]:
        """The answer to a request; what the program raised is raised here.

        `OutOfTime` if it takes more than `seconds`, as measured by a clock on the wall.
        """
        try:
            messages.send(self._ask, request)
        except BrokenPipeError:
            self._bury()
        return self.receive(seconds)

    def receive(self, seconds: float | None = None) -> dict[str, Any]:
        try:
            deadline = None if seconds is None else time.monotonic() + seconds
            answer = messages.get(self._answer, deadline)
        except TimeoutError as error:
            raise OutOfTime from error
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
            ended, status, used = os.wait4(self.pid, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                if code == -signal.SIGKILL and used.ru_utime + used.ru_stime > self._seconds:
                    raise OutOfTime
                raise_for(code)
            time.sleep(0.005)
        raise Gone("it closed its pipes")


def keep(*descriptors: int) -> None:
    """Closes all others; what a program prints goes nowhere."""
    for number in range(3):
        os.close(number)
        os.open(os.devnull, os.O_RDWR)  # of its own: flags are shared by all that share a file
    before = 2
    for descriptor in sorted(descriptors):
        os.closerange(before + 1, descriptor)
        before = descriptor
    os.closerange(before + 1, 1 << 20)


def _raise_as(name: str, text: str) -> NoReturn:
    """Raises the built-in exception of a name, so that tests of errors can catch it."""
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        raise kind(text)
    raise Gone(f"{name}: {text}")


def raise_for(code: int) -> NoReturn:
    """Raises what the exit code of a program means, below 0 the number of a signal."""
    if code == -signal.SIGXCPU:
        raise OutOfTime
    if code == -signal.SIGKILL:  # by the kernel, which is short of memory: the filter lets no other
        raise MemoryError
    name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    raise Gone(f"it ended with {name}")


def limit(job: dict[str, Any]) -> None:
    """Lets this process use what the job allows, and make the system calls of the filter."""
    seconds = max(1, math.ceil(job["seconds"]))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (job["file_bytes"], job["file_bytes"]))
    resource.setrlimit(resource.RLIMIT_NPROC, (_THREADS, _THREADS))
    confine(job["kind"], job["memory_bytes"])


def confine(kind: str, memory_bytes: int) -> None:
    """Limits the memory of this process, and puts the filter on it."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    if kind != "none" or seccomp.is_known():
        seccomp.load()


def limit_all() -> None:
    """The limits that are the same for all that this process forks; it keeps within them too."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a file that is too large is an OSError

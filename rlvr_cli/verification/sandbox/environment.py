"""The environment of a program, as in a separate process that runs a script.

`exit` and `quit`, its module in `sys.modules`, its standard streams, what happens at its end, and
event loops that need no socket. It runs inside the sandbox and imports only the standard library.
"""

import atexit
import builtins
import contextlib
import io
import os
import resource
import sys
import types
from typing import Any

_STACK_BYTES = 112 << 20  # Linux leaves the stack of a process at least 128 MiB


class _Exit:
    """`exit` and `quit`, which the module `site` would make."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Use {self.name}() or Ctrl-D (i.e. EOF) to exit"

    def __call__(self, code: Any = None) -> None:
        raise SystemExit(code)


def prepare(program: str) -> None:
    """Gives this process what a program expects of it."""
    for name in ("exit", "quit"):
        setattr(builtins, name, _Exit(name))
    sys.argv = ["solution.py"]
    with contextlib.suppress(OSError, ValueError):
        soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
        most = _STACK_BYTES if hard == resource.RLIM_INFINITY else min(_STACK_BYTES, hard)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_STACK, (most, hard))
    if "asyncio" in program:
        _need_no_sockets()
    if "/dev/stdin" in program or "/proc/self/fd/0" in program:
        _open_input()


def module(name: str) -> dict[str, Any]:
    """The scope of a module that `sys.modules` knows, as dataclasses and pickle look it up."""
    new = types.ModuleType(name)
    new.__dict__.update(__builtins__=builtins, __file__="solution.py")
    sys.modules[name] = new
    return new.__dict__


def open_streams() -> None:
    """Standard streams on descriptors 0 to 2; they outlive whatever takes their place."""
    streams: list[Any] = [
        open(number, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
        for number, mode, errors in (
            (0, "r", "surrogateescape"), (1, "w", "surrogateescape"), (2, "w", "backslashreplace"),
        )
    ]  # fmt: skip
    sys.stdin, sys.stdout, sys.stderr = streams
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = streams  # type: ignore[misc]


def at_end() -> None:
    """What an interpreter does at its end: it waits for threads, calls `atexit`, and flushes."""
    threading = sys.modules.get("threading")
    with contextlib.suppress(BaseException):
        if threading:
            threading._shutdown()
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.__stdout__, sys.stderr):
        with contextlib.suppress(BaseException):
            if stream:
                stream.flush()


class _End:
    """An end of a pipe as the end of a pair of sockets, for what asyncio does with one."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        os.set_blocking(descriptor, False)

    def fileno(self) -> int:
        return self._descriptor

    def recv(self, size: int) -> bytes:
        return os.read(self._descriptor, size)

    def send(self, data: bytes) -> int:
        return os.write(self._descriptor, data)

    def close(self) -> None:
        os.close(self._descriptor)


def _need_no_sockets() -> None:
    """Lets event loops wake themselves through a pipe: sockets are refused."""
    from asyncio import selector_events

    def make(self: Any) -> None:
        read, write = os.pipe()
        self._ssock, self._csock = _End(read), _End(write)
        self._internal_fds += 1
        self._add_reader(self._ssock.fileno(), self._read_from_self)

    selector_events.BaseSelectorEventLoop._make_self_pipe = make  # type: ignore[attr-defined]


def _open_input() -> None:
    """Lets `open` take the input by its path: there is no /proc for it to lead to."""
    plain = builtins.open

    def opens(file: Any, *arguments: Any, **named: Any) -> Any:
        path = os.fspath(file) if isinstance(file, str | os.PathLike) else None
        is_input = path in ("/dev/stdin", "/proc/self/fd/0")
        return plain(os.dup(0) if is_input else file, *arguments, **named)

    builtins.open = io.open = opens

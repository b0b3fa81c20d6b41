"""The process inside a sandbox that forks one pair of processes for each program.

It holds neither a program nor tests: it passes on the descriptors that they are read from, so that
a fork of it has nothing of an earlier program to find. It runs inside the sandbox and imports only
the standard library.
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any, NoReturn

from rlvr_cli.verification.sandbox import child, guard, namespaces, runner, seccomp

KILL, RUN = b"k", b"r"  # requests to it
ENDED = struct.Struct("!i")  # its answer: the exit code of the process that ran the tests
# What programs import most, so that a fork has it. Not `threading` and `random` nor what imports
# them: their work after each fork takes longer than importing them where they are used.
_WARM = (
    "abc", "array", "ast", "bisect", "cmath", "collections", "contextlib", "copy", "dataclasses",
    "datetime", "decimal", "enum", "fractions", "functools", "hashlib", "heapq", "inspect", "io",
    "itertools", "json", "math", "numbers", "operator", "re", "string", "struct", "textwrap",
    "time", "types", "typing", "unicodedata", "_random", "_weakrefset",
    "_sha2" if sys.version_info >= (3, 12) else "_sha512",
)  # fmt: skip


def main(setup: dict[str, Any]) -> NoReturn:
    """Enters the sandbox, loads what programs import, and runs one program after the other.

    It ends, and with it all that it started, when the other side of the control socket closes.
    """
    control = socket.socket(fileno=setup["control"])
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    os.close(null)
    try:
        _enter(setup["kind"], setup["folders"])
        fault = _warm_up(setup)
    except BaseException as error:
        fault = f"{type(error).__name__}: {error}"[:200]
    control.sendall(json.dumps({"fault": fault}).encode())
    while not fault and (descriptors := _next(control)):
        if setup["kind"] != "none":
            namespaces.renew_tmp(setup["tmp_bytes"])
        control.sendall(ENDED.pack(_run(setup, control, descriptors)))
    os._exit(0)


def _enter(kind: str, folders: list[str]) -> None:
    """Leaves all of the machine that a sandbox of this kind does not have."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    if kind == "unshare":
        namespaces.enter(folders)
    if kind != "none":
        namespaces.make_read_only()
    namespaces.bound_capabilities()
    namespaces.hide()
    namespaces.adopt_orphans()


class _Allowed:
    """Finds the packages that programs may import, and no other of their folders."""

    def __init__(self, paths: list[str], tops: list[str]) -> None:
        self._paths, self._tops = paths, frozenset(tops)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if path is not None or name not in self._tops:
            return None
        return PathFinder.find_spec(name, self._paths)


def _warm_up(setup: dict[str, Any]) -> str | None:
    """Imports what programs need; returns why a requested module cannot be imported."""
    for name in _WARM:
        importlib.import_module(name)
    sys.meta_path.append(_Allowed(setup["paths"], setup["tops"]))
    for name in setup["modules"]:
        try:
            importlib.import_module(name)
        except BaseException as error:
            return f"{name} cannot be imported in it: {type(error).__name__}: {error}"[:200]
    if seccomp.is_known():
        seccomp.prepare()
    guard.prepare(setup["folders"])
    child.limit_all()
    os.environ.clear()
    sys.argv[:] = [""]
    gc.collect()
    gc.freeze()
    return None


def _next(control: socket.socket) -> list[int]:
    """The descriptors of the next program; none once the other side is gone."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 1, 3)
        if data != KILL:  # one that comes late, of a program that has ended
            return descriptors


def _run(setup: dict[str, Any], control: socket.socket, descriptors: list[int]) -> int:
    """Runs a program until the process of its tests ends, or a message says to kill it."""
    pid = os.fork()
    if not pid:
        try:
            os.setsid()
            os.close(control.fileno())
            runner.run(setup["kind"], *descriptors)
        finally:
            os._exit(1)
    for descriptor in descriptors:
        os.close(descriptor)
    life = os.pidfd_open(pid)
    asked, _, _ = select.select([life, control.fileno()], [], [])
    os.close(life)
    if control.fileno() in asked and not control.recv(1):
        _kill_all(setup["kind"], pid)
        os._exit(0)
    return _kill_all(setup["kind"], pid)


def _kill_all(kind: str, pid: int) -> int:
    """Ends all that this process started; the exit code of the process `pid`."""
    code = -signal.SIGKILL
    with contextlib.suppress(ChildProcessError):
        ended, status = os.waitpid(pid, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if ended else code
    while True:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(-1, signal.SIGKILL) if kind != "none" else os.killpg(pid, signal.SIGKILL)
        for orphan in _children() if kind == "none" else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(orphan, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return code


def _children() -> list[int]:
    """The processes whose parent is this one; none where /proc does not say."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []

"""The process that forks workers: its memory is clean, and the heavy imports run once.

It runs no verifier, so it is never stuck: it forks, kills and reaps. It ends, and all that it
forked with it, when the process that started it does.
"""

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
from typing import Any

from rlvr_cli.runtime import parents, signals
from rlvr_cli.verification.workers import ending, wire, worker

_IDLE_S = 0.5  # between two looks for orphans


def main(descriptor: int, imports: list[str], parent: int) -> None:
    """Answers `fork` with a pid and `end` with an exit status until the control socket closes."""
    control = socket.socket(fileno=descriptor)
    _end_with(parent)
    for name in imports:
        with contextlib.suppress(ImportError):  # the verifier says so where it is used
            importlib.import_module(name)
    gc.freeze()
    workers: set[int] = set()
    try:
        while True:
            if not select.select([control], [], [], _IDLE_S)[0]:
                _bury_orphans(workers)
                continue
            data, descriptors, _, _ = socket.recv_fds(control, 4096, 1)
            if not data:
                return
            (message,) = wire.Inbox().feed(data)
            answer = (
                _fork(control, descriptors[0], workers)
                if descriptors
                else _end(message["end"], message["grace_s"], workers)
            )
            control.sendall(wire.pack(answer))
    finally:
        for pid in list(workers):
            _end(pid, 0.0, workers)


def _end_with(parent: int) -> None:
    """Ends this process, and what it forked, with its parent; other signals to end are ignored.

    A signal may reach all of a job, and a verifier that ends first would give a verdict.
    """

    def stop(*_: object) -> None:
        if os.getppid() != parent:
            sys.exit(0)

    for number in (signal.SIGTERM, *signals.handled()):
        signal.signal(number, stop)
    parents.adopt_orphans()
    parents.die_with_parent(parent, signal.SIGTERM)


def _fork(control: socket.socket, descriptor: int, workers: set[int]) -> dict[str, Any]:
    server = os.getpid()
    pid = os.fork()
    if not pid:
        control.close()
        worker.main(descriptor, server)
    os.close(descriptor)
    workers.add(pid)
    return {"pid": pid}


def _end(pid: int, grace_s: float, workers: set[int]) -> dict[str, Any]:
    """Kills a worker's process group, reaps it, and whatever of it went into a group of its own.

    The exit status is that of a process which ended by itself within the grace, else None.
    """
    deadline = time.monotonic() + grace_s
    while not (dead := ending.has_ended(pid)) and time.monotonic() < deadline:
        time.sleep(0.005)
    for kill in (os.killpg, os.kill):  # it has no group before its first instruction
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    workers.discard(pid)
    _bury_orphans(workers)
    return {"status": os.waitstatus_to_exitcode(status) if dead else None}


def _bury_orphans(workers: set[int]) -> None:
    """Kills and reaps whatever came here because its own parent died."""
    while orphans := [child for child in parents.children() if child not in workers]:
        for orphan in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(orphan, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(orphan, 0)

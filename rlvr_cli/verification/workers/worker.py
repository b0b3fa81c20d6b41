"""The process in which a verifier judges: it may hang, crash or run out of memory."""

import functools
import os
import resource
import signal
import socket
import sys
import time
from typing import Any, NoReturn

from rlvr_cli import registry
from rlvr_cli.errors import UserError
from rlvr_cli.protocols import Group, GroupVerifier, Isolated, Verdict
from rlvr_cli.runtime import parents, signals
from rlvr_cli.specs import trust, user_code
from rlvr_cli.verification.workers import wire

TEXT = 200  # characters of an error that are stored


def main(descriptor: int, server: int) -> NoReturn:
    """Judges what comes over a socket, one after the other, until it closes or `server` ends."""
    os.setsid()
    if os.environ.get(trust.SAFE_PATH) == trust.OURS:
        del os.environ[trust.SAFE_PATH]  # a function may start scripts that import their siblings
    parents.die_with_parent(server)
    _leave_signals_to_the_command()
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)  # what a verifier prints is no result
    channel = socket.socket(fileno=descriptor)
    code = 1
    try:
        while (task := wire.receive(channel)) is not None:
            answer = _judge(task)
            if isinstance(answer, list):
                message: dict[str, Any] = {"group": [vars(verdict) for verdict in answer]}
            else:
                message = vars(answer)
            channel.sendall(wire.pack({**message, "cpu_s": time.process_time()}))
            if isinstance(answer, Verdict) and answer.status == "oom":
                break  # its heap is in pieces
        code = 0
    finally:
        os._exit(code)


def _leave_signals_to_the_command() -> None:
    """Ignores signals to all of a job: a verifier that ends first would give a verdict.

    Processes that a verifier starts receive them.
    """
    for number in signals.handled():
        signal.signal(number, lambda *_: None)
    os.register_at_fork(after_in_child=_reset)


def _reset() -> None:
    for number in signals.handled():
        signal.signal(number, signal.SIG_DFL)


def _judge(task: dict[str, Any]) -> Verdict | list[Verdict]:
    try:
        if sys.platform == "linux":  # macOS takes no limit on the memory of a process
            _, most = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (task["memory_bytes"], most))
        built = verifier(task["spec"])
        if isinstance(built, GroupVerifier):
            return built.judge(Group(**task["group"]))
        return built.judge(task["extracted"], task["answer"], task["extra"])
    except MemoryError:
        return Verdict("oom")
    except UserError as error:
        return Verdict("error", reason=str(error)[:TEXT])
    except BaseException as error:  # math-verify's time-out is no Exception, nor is SystemExit
        text = f"{type(error).__name__}: {error}"[:TEXT]
        return Verdict("error", reason=text + user_code.raised_at(error))


@functools.lru_cache(maxsize=64)
def verifier(spec: str) -> Isolated | GroupVerifier:
    built: Isolated | GroupVerifier = registry.build("verifiers", spec)
    return built

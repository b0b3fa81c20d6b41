"""Runs a program against tests that it cannot touch.

Two processes: this one holds the tests and the answer's place, its child runs the program under a
filter of system calls. Tests call the program's functions by messages of plain data, so that a
program that exits, patches `assert`, compares equal to all or looks through its frames changes
nothing but its own values. It runs inside the sandbox and imports the standard library alone.
"""

import ctypes
import json
import os
from collections.abc import Callable
from typing import Any

from rlvr_cli.verification.sandbox import calls, counting, namespaces, scripts
from rlvr_cli.verification.sandbox.child import Child, OutOfTime
from rlvr_cli.verification.sandbox.messages import Gone

_STYLES = {"tests": calls, "outputs": scripts}  # of testing


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
    style = _STYLES[job["style"]]
    try:
        result = style.check(Child(job, style.serve), tests())
    except Gone as error:
        result = {"passed": False, "reason": str(error)}
    except (MemoryError, OutOfTime) as error:
        result = {"status": "oom" if isinstance(error, MemoryError) else "timeout"}
    except BaseException as error:
        result = {"passed": False, "reason": f"{type(error).__name__}: {error}"[:200]}
    os.write(out, json.dumps({**result, **counting.reached()}).encode())
    os._exit(0)


def _hide() -> None:
    """Keeps the child from reading or writing this process's memory."""
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE

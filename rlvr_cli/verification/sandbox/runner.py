"""One program against tests that it cannot touch, in two processes under the filter.

The first holds the tests and the descriptor of the report; the second, forked before the tests are
read, runs the program. Tests call the program's functions by messages of plain data, so that a
program that exits, patches `assert`, compares equal to all or looks through its frames changes
nothing but its own values. It runs inside the sandbox and imports only the standard library.
"""

import os
from typing import NoReturn

from rlvr_cli.verification.sandbox import calls, counting, guard, messages, namespaces, scripts
from rlvr_cli.verification.sandbox.child import READY, Child, OutOfTime, confine, keep
from rlvr_cli.verification.sandbox.messages import Gone

_STYLES = {"tests": calls, "outputs": scripts}  # of testing
_ANY = 1 << 32  # bytes
_TEST_BYTES = 2 << 30  # the least address space of the process that holds the tests


def run(kind: str, program: int, tests: int, report: int) -> NoReturn:
    """Forks the process that reads the program, then reads the tests; reports, and ends.

    It forks before it does anything else, as what it has written to by then is copied twice.
    """
    child = Child(lambda asks, answers: _serve(kind, program, asks, answers))
    os.close(program)
    namespaces.drop_capabilities()
    rest = messages.get(tests, most=_ANY)
    job = rest.pop("job")
    os.chdir(job["folder"])
    child.begin(job["seconds"])
    confine(kind, max(job["memory_bytes"], _TEST_BYTES))
    guard.arm()
    try:
        result = _STYLES[job["style"]].check(child, rest)
    except Gone as error:
        result = {"passed": False, "reason": str(error)}
    except (MemoryError, OutOfTime) as error:
        result = {"status": "oom" if isinstance(error, MemoryError) else "timeout"}
    except BaseException as error:
        result = {"passed": False, "reason": f"{type(error).__name__}: {error}"[:200]}
    if guard.REFUSED:
        result = {"status": "bad_gold", "reason": guard.REFUSED[0]}
    messages.send(report, {**result, **counting.reached()})
    os.close(report)
    os._exit(0)


def _serve(kind: str, program: int, asks: int, answers: int) -> None:
    """The process that knows the program, and nothing of the tests."""
    keep(program, asks, answers)
    namespaces.drop_capabilities()
    job = {**messages.get(program, most=_ANY), "kind": kind}
    os.close(program)
    os.chdir(job["folder"])
    messages.send(answers, READY)
    _STYLES[job["style"]].serve(job, asks, answers)

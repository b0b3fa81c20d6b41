"""One program against tests that it cannot touch, in two processes under the filter.

The first holds the tests and the descriptor of the report; the second, forked before the tests are
read, runs the program. Tests call the program's functions by messages of plain data, so that a
program that exits, patches `assert`, compares equal to all or looks through its frames changes
nothing but its own values. It runs inside the sandbox and imports the standard library alone.
"""

import json
import os
from typing import Any, NoReturn

from rlvr_cli.verification.sandbox import calls, guard, messages, namespaces, scripts
from rlvr_cli.verification.sandbox.child import Child, OutOfTime, confine
from rlvr_cli.verification.sandbox.messages import Gone

_STYLES = {"tests": calls, "outputs": scripts}  # of testing
_TEST_BYTES = 2 << 30  # the least address space of the process that holds the tests


def run(setup: dict[str, Any], program: int, tests: int, report: int) -> NoReturn:
    """Reads the program and forks the process that knows it, then the tests; reports, and ends."""
    namespaces.drop_capabilities()
    job = {**messages.whole(program), "kind": setup["kind"]}
    os.chdir(job["folder"])
    style = _STYLES[job["style"]]
    try:
        child = Child(job, style.serve)
        confine(job, max(job["memory_bytes"], _TEST_BYTES))
        rest = messages.whole(tests)
        guard.arm(setup["folders"])
        result = style.check(child, rest)
    except Gone as error:
        result = {"passed": False, "reason": str(error)}
    except (MemoryError, OutOfTime) as error:
        result = {"status": "oom" if isinstance(error, MemoryError) else "timeout"}
    except BaseException as error:
        result = {"passed": False, "reason": f"{type(error).__name__}: {error}"[:200]}
    if guard.REFUSED:
        result = {"status": "bad_gold", "reason": guard.REFUSED[0]}
    data = json.dumps(result).encode()
    while data:
        data = data[os.write(report, data) :]
    os._exit(0)

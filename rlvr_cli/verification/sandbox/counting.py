"""How many tests passed, and how long each may take.

It runs inside the sandbox and imports only the standard library.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rlvr_cli.verification.sandbox.child import OutOfTime

_COUNT = {"tests": 0, "passed": 0}  # of the one program that this process tests


def expect(tests: int) -> None:
    """Says how many tests there are; from then on `reached` knows the share that passed."""
    _COUNT.update(tests=tests, passed=0)


def reached() -> dict[str, float]:
    """The share of the tests that passed until now, where it is counted."""
    return {"share": _COUNT["passed"] / _COUNT["tests"]} if _COUNT["tests"] else {}


@contextmanager
def test(seconds: float | None) -> Iterator[None]:
    """One test, which may take so many seconds of the clock, or any number where that is None.

    Where tests are counted, the others continue after one that fails.
    """
    try:
        with limited(seconds):
            yield
        _COUNT["passed"] += 1
    except Exception:
        if not _COUNT["tests"]:
            raise


def outcome(tests: Sequence[Callable[[], str | None]]) -> dict[str, Any]:
    """The outcome of tests, each of which returns why it failed.

    The first that fails ends it, unless they are counted.
    """
    reason = None
    for run in tests:
        why = run()
        _COUNT["passed"] += why is None
        reason = reason or why
        if why is not None and not _COUNT["tests"]:
            break
    return {"passed": True} if reason is None else {"passed": False, "reason": reason}


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Raises `OutOfTime` in what takes more seconds of the clock; None is no limit."""
    if not seconds:
        yield
        return

    def end(*_: Any) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

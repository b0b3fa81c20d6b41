"""Runs tests one after the other, and says how many passed.

It runs inside the sandbox and imports the standard library alone.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rlvr_cli.verification.sandbox.child import OutOfTime
from rlvr_cli.verification.sandbox.messages import Gone


def outcome(tests: Sequence[Callable[[], str | None]], rest: dict[str, Any]) -> dict[str, Any]:
    """What came of tests, each of which returns why it failed, or raises.

    The first that fails ends it, unless `rest` says with `counts` that the share that passes is
    wanted. `test_seconds` of it limits each.
    """
    passed, reason = 0, None
    counts = bool(rest.get("counts"))
    for test in tests:
        why = _why(test, rest.get("test_seconds"))
        if isinstance(why, BaseException):
            if not counts:
                raise why
            return {**_ended(why), "share": passed / len(tests)}
        passed += why is None
        reason = reason or why
        if why is not None and not counts:
            break
    share = {"share": passed / len(tests)} if counts else {}
    is_right = passed == len(tests) > 0
    return {"passed": is_right, **share, **({} if is_right else {"reason": reason})}


def _why(test: Callable[[], str | None], seconds: float | None) -> str | BaseException | None:
    """Why a test failed; an exception if no other can follow it."""
    try:
        with limited(seconds):
            return test()
    except (Gone, OutOfTime, MemoryError) as error:
        return error
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]


def _ended(error: BaseException) -> dict[str, Any]:
    if isinstance(error, Gone):
        return {"passed": False, "reason": str(error)}
    return {"status": "oom" if isinstance(error, MemoryError) else "timeout"}


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

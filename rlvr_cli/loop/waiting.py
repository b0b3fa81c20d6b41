"""Waits for what other processes write to a run, by polling at least once a second."""

import time
from collections.abc import Callable
from pathlib import Path

from rlvr_cli.runtime import distributed
from rlvr_cli.terminal import console

STOP = "_stop"  # a file that ends all that follow the run
_POLL_S = (0.02, 1.0)  # from one look to the next, at first and at most


class Stopped(Exception):
    """The run's folder has a file that says that it is to stop."""


class Waiting:
    """Waits a little longer from one look to the next, as long as nothing comes."""

    def __init__(self, patience_s: float = 3.0) -> None:
        self._patience_s, self._reported = patience_s, ""
        self.reset()

    def reset(self) -> None:
        """Starts again with short waits, after something came."""
        self._seconds, self._since = _POLL_S[0], time.monotonic()

    def wait(self, what: str) -> None:
        """Waits until the next check; after a while, says once for what."""
        if what != self._reported and time.monotonic() - self._since > self._patience_s:
            self._reported = what
            console.say(f"waiting for {what}")
        time.sleep(self._seconds)
        self._seconds = min(2 * self._seconds, _POLL_S[1])


def raise_if_stopped(run: Path) -> None:
    """Raises Stopped if the run is to stop."""
    if (run / STOP).exists():
        raise Stopped(f"`{run / STOP}` exists: remove it, and the same command resumes")


def until(
    run: Path,
    is_there: Callable[[], bool],
    what: str,
    look: Callable[[], None] = lambda: None,
    *,
    patience_s: float = 3.0,
) -> None:
    """Returns once `is_there` is true, for all processes together.

    `look` is called by the main process from time to time, as it may fail.
    """
    waiting = Waiting(patience_s)
    while True:
        seen = is_there(), (run / STOP).exists()
        is_done, stops = distributed.broadcast(seen)
        if stops:
            raise_if_stopped(run)
        if is_done:
            return
        if distributed.current().is_main_process:
            look()
        waiting.wait(what)

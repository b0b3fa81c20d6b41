"""The process that sends a run's figures while `train` runs; it ends with the run.

It reads what the run writes, and nothing of the run waits for it or fails with it.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from rlvr_cli import registry
from rlvr_cli.errors import UserError
from rlvr_cli.runtime import distributed, signals
from rlvr_cli.terminal import console, plural
from rlvr_cli.tracking import sending

LOG = "track.log"
_START = "from rlvr_cli.tracking.process import main; main({path!r}, {spec!r}, {parent})"
_LEFT_S = 60.0  # for what is still to be sent when the run is over
_ORPHANED_S = 10.0  # when the run was killed


class TrackerProcess:
    """A run's tracker in a process of its own, once the run has something to send."""

    def __init__(self, run: Path, spec: str) -> None:
        self._run, self._spec = run, spec
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the process, if it was not started yet."""
        if self._process:
            return
        code = _START.format(path=str(self._run), spec=self._spec, parent=os.getpid())
        with self._log() as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", code],
                stdin=subprocess.PIPE,  # it is closed when this process is done or dead
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # ctrl-c stops the run, and then it sends the rest
            )

    def _log(self) -> IO[bytes]:
        """Its log file; the null device where that cannot be written, as a run needs no log."""
        try:
            return open(self._run / LOG, "ab")
        except OSError:
            return open(os.devnull, "ab")

    def close(self, wait_s: float) -> None:
        """Lets it send the rest, and reports a failure."""
        if not self._process:
            return
        assert self._process.stdin
        self._process.stdin.close()
        log = self._run / LOG
        again = sending.command(self._run, self._spec)
        try:
            code = self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            console.say(f"train: the tracker has not sent all yet; send the rest with `{again}`")
            return
        if code:
            console.say(f"train: the tracker failed, see `{log}`; send the rest with `{again}`")


@contextlib.contextmanager
def tracking(run: Path, spec: str | None) -> Iterator[TrackerProcess | None]:
    """The tracker of a run, if one is wanted; None where the run goes without."""
    if not spec:
        yield None
        return
    process = TrackerProcess(run, spec)
    try:
        yield process
    except BaseException:
        process.close(wait_s=5.0)
        raise
    process.close(wait_s=_LEFT_S)


def check(spec: str | None) -> None:
    """Refuses a tracker that is unknown, or whose package is not installed."""
    if spec:
        registry.build("trackers", spec)


def main(path: str, spec: str, parent: int) -> None:
    """Follows the run until the process that started this one closes its end, or dies."""
    ending = distributed.Ending()
    run = threading.Event()
    for number in signals.handled():
        signal.signal(number, lambda *_: run.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(run, parent), daemon=True).start()
    try:
        done = sending.send(Path(path), spec, is_over=run.is_set)
        console.say(f"track: {plural.of(done.sent, 'step')} sent, the last is step {done.last}")
        for remark in done.remarks():
            console.say(f"track: {remark}")
        ending.code = 0
    except UserError as error:
        console.error(str(error), error.hint)
        ending.code = error.exit_code


def _watch(run: threading.Event, parent: int) -> None:
    """Sets `run` when the run is over, and ends this process if it does not end by itself then."""
    while not run.is_set() and os.getppid() == parent:
        if select.select([0], [], [], 0.5)[0] and not os.read(0, 1):
            break
    run.set()
    deadline = time.monotonic() + _LEFT_S
    while time.monotonic() < deadline:
        if os.getppid() != parent:
            deadline = min(deadline, time.monotonic() + _ORPHANED_S)
        time.sleep(0.1)
    print("the run has ended: given up, `rlvr track` sends the rest", flush=True)
    os._exit(1)

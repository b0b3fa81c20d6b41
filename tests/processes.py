"""All processes that come of one command, wherever they go, and which of them outlive it.

    family = processes.Family()
    running = family.start([sys.executable, "-P", "-c", CODE, "train"])
    family.members()  # now and then: whoever was seen once is known until it ends
    running.kill()
    assert not family.left()

A process is of the family if its session is that of the command, if its environment holds the
family's mark (a child that calls setsid keeps it), if an ancestor of it is of the family, or if it
was when it was last looked at (a sandbox clears its environment and loses its parents). Linux only:
it reads /proc.
"""

import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MARK = "RLVR_FAMILY"
_ENDED = "ZX"  # states of a process of which only the exit status is left


@dataclass(frozen=True)
class Process:
    """A process as /proc shows it; a pid that is used again has another `started`."""

    pid: int
    started: int  # in ticks of the clock since the machine began
    parent: int
    session: int
    state: str
    command: str

    @property
    def identity(self) -> tuple[int, int]:
        return self.pid, self.started

    @property
    def environment(self) -> dict[str, str]:
        """What it was executed with; empty of another user's process."""
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{self.pid}/environ").read_bytes().split(b"\0")
            pairs = (word.decode(errors="replace").partition("=") for word in words)
            return {name: value for name, _, value in pairs}
        return {}


def running() -> dict[int, Process]:
    """Every process of the machine that has not ended, by pid."""
    found = {}
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended meanwhile
        name, _, rest = stat.partition(" (")[2].rpartition(") ")
        fields = rest.split()
        command = " ".join(word.decode(errors="replace") for word in words).strip() or f"[{name}]"
        process = Process(
            pid, int(fields[19]), int(fields[1]), int(fields[3]), fields[0], command[:300]
        )
        if process.state not in _ENDED:
            found[pid] = process
    return found


class Family:
    """The processes that come of a command, or of a fork whose session is known."""

    def __init__(self, session: int | None = None, mark: str | None = None) -> None:
        self.session, self.mark = session, mark or uuid.uuid4().hex
        self._known: set[tuple[int, int]] = set()

    @property
    def environment(self) -> dict[str, str]:
        """The environment that marks whoever is executed with it."""
        return {**os.environ, MARK: self.mark}

    def start(
        self, words: Sequence[object], *, env: dict[str, str] | None = None, **options: Any
    ) -> "subprocess.Popen[Any]":
        """Starts the command in a session of its own, with the mark in its environment."""
        process = subprocess.Popen(
            [str(word) for word in words],
            env={**(os.environ if env is None else env), MARK: self.mark},
            start_new_session=True,
            **options,
        )
        self.session = process.pid
        return process

    def members(self) -> list[Process]:
        """Those that run now; this process is none of them."""
        everyone = running()
        children: dict[int, list[int]] = {}
        for process in everyone.values():
            children.setdefault(process.parent, []).append(process.pid)
        found: dict[int, Process] = {}
        waiting = [process.pid for process in everyone.values() if self._has(process)]
        while waiting:
            pid = waiting.pop()
            if pid not in found and pid != os.getpid():
                found[pid] = everyone[pid]
                waiting += children.get(pid, [])
        self._known |= {process.identity for process in found.values()}
        return list(found.values())

    def _has(self, process: Process) -> bool:
        return (
            process.identity in self._known
            or process.session == self.session
            or process.environment.get(MARK) == self.mark
        )

    def left(self, within_s: float = 120.0) -> list[Process]:
        """Those that still run after so many seconds; none as soon as there is none."""
        deadline = time.monotonic() + within_s
        while (members := self.members()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return members

    def kill(self) -> None:
        """Ends whoever is left."""
        while members := self.members():
            for process in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            time.sleep(0.01)

    def __enter__(self) -> "Family":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

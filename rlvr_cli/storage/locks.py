"""Locks that die with their process, and whose files say who holds them.

The kernel frees such a lock with its process, so that a killed one never blocks the next. It may do
so only within one machine: to others that share the folder, a file that is touched all the while
says that its process lives.
"""

import contextlib
import fcntl
import json
import os
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from rlvr_cli.errors import Advice, UserError
from rlvr_cli.storage.atomic import write_error

BEAT_S = 4.0  # between two touches of the file
SILENT_S = 20.0  # without a touch, after which a process of another machine is taken for dead
_GLANCE_S = 0.1  # a lock that is being given back is free by then
_DYING_S = 10.0  # a process that is ending holds its lock until its memory is freed
_GLANCES_S = 10.0  # processes that only ask whether it is locked, on a busy machine
_EXITING = 4  # PF_EXITING, of the flags in /proc/PID/stat


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock."""

    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    since: str = field(default_factory=lambda: f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC")

    @property
    def is_elsewhere(self) -> bool:
        return self.host != socket.gethostname()

    def is_ending(self) -> bool:
        """Whether it ran on this machine and is as good as dead."""
        if self.is_elsewhere:
            return False
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text(errors="replace")
        except OSError:
            return Path("/proc/self/stat").exists()
        words = stat.rpartition(")")[2].split()
        return words[0] in "ZX" or bool(int(words[6]) & _EXITING)

    def refuse(self, path: Path) -> NoReturn:
        where = f" on `{self.host}`" if self.is_elsewhere else ""
        kill = f"ssh {self.host} kill {self.pid}" if where else f"kill {self.pid}"
        more = f"; once it is dead, this command continues after {SILENT_S:g} s" if where else ""
        raise UserError(
            f"another process is writing `{path.parent}`: pid {self.pid}{where}, since "
            f"{self.since}",
            f"wait for it, or stop it with `{kill}`, which keeps finished work{more}",
        )


def holder(path: Path) -> Holder | None:
    """The process that holds the lock file, or held it when it was killed; None if unknown."""
    try:
        return Holder(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


@contextlib.contextmanager
def locked(path: Path, *, across_machines: bool = False) -> Iterator[None]:
    """Holds the lock file `path`; a second holder is refused at once.

    `across_machines` it is touched all the while, and one that another machine touches is refused.
    """
    descriptor = _acquire(path, across_machines)
    is_done = threading.Event()
    beat = threading.Thread(target=_beat, args=(descriptor, is_done), daemon=True)
    try:
        _sign(descriptor)
        if across_machines:
            beat.start()
        yield
    finally:
        is_done.set()
        if beat.ident:  # the descriptor may be another file's afterwards
            beat.join()
        with contextlib.suppress(OSError):  # the last one out removes the file
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock file; asking takes the lock for a moment."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would wait
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def _acquire(path: Path, across_machines: bool) -> int:
    start = time.monotonic()
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise write_error(path.parent, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if across_machines:
                _refuse_a_living_one(path)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            pass  # the holder before us removed its lock file: take a new one
        except BlockingIOError as error:
            is_shared = can_share(descriptor)
            os.close(descriptor)
            held_by = holder(path)
            patience_s = _DYING_S if held_by and held_by.is_ending() else _GLANCE_S
            if time.monotonic() < start + (_GLANCES_S if is_shared else patience_s):
                time.sleep(0.005)
                continue
            if held_by:
                held_by.refuse(path)
            raise UserError(
                f"another process is writing `{path.parent}`",
                "wait for it, or stop it",
            ) from error
        except OSError as error:
            os.close(descriptor)
            raise write_error(path, error) from error
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def can_share(descriptor: int) -> bool:
    """Whether no process locks a file exclusively; it is then locked as one of several readers."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _refuse_a_living_one(path: Path) -> None:
    """Waits for a sign of life of the process that the file names, if another machine runs it."""
    held_by = holder(path)
    if held_by is None or not held_by.is_elsewhere:
        return
    warnings.warn(
        Advice(
            f"`{path.parent}` was being written by pid {held_by.pid} on `{held_by.host}` since "
            f"{held_by.since}: looking for {SILENT_S:g} s whether it still is"
        ),
        stacklevel=2,
    )
    before, deadline = _state(path), time.monotonic() + SILENT_S
    while (now := _state(path)) == before:
        if time.monotonic() > deadline:
            return
        time.sleep(BEAT_S / 8)
    if now:
        held_by.refuse(path)


def _state(path: Path) -> tuple[int, bytes] | None:
    """When the file was touched, and its content, read from the server and not from a cache."""
    try:
        with open(path, "rb") as file:
            return os.fstat(file.fileno()).st_mtime_ns, file.read()
    except FileNotFoundError:
        return None


def _sign(descriptor: int) -> None:
    with contextlib.suppress(OSError):  # on a full disk it is a lock without a name
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(asdict(Holder())).encode(), 0)


def _beat(descriptor: int, is_done: threading.Event) -> None:
    while not is_done.wait(BEAT_S):
        with contextlib.suppress(OSError):
            os.utime(descriptor)

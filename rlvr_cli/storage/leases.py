"""Leases on the parts of a directory: they avoid double work; results do not depend on them.

A process that makes parts has its own file, `_writer-NONCE.jsonl` (journal.py), to which it adds a
line every BEAT_S. A lease on part J is another name of that file, `_lease-J.1`: only one process
can create a hard link, and as a file grows under all its names, one line renews every lease.
Another process takes a part over if the file has not grown for PATIENCE_S by its own clock; no two
clocks are compared. It links `_lease-J.2`, and so on: the highest number is valid.

On one machine nobody waits: a process holds a lock on its file, which the kernel frees when it
dies. If a holder that was given up comes back, two processes make one part, and publishing.py lets
one of them win.
"""

import contextlib
import fcntl
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rlvr_cli.storage import atomic, journal, locks, publishing

BEAT_S = 2.0
PATIENCE_S = 15.0
PATTERN = "_lease-*"
_HEADER_BYTES = 4096


class Leases:
    """The parts that this process holds, and whether the processes that hold others live.

    Without `competes` no other process makes these parts: it takes no leases, and its file is
    only the journal.
    """

    def __init__(
        self,
        folder: Path,
        *,
        competes: bool = True,
        clock: Callable[[], float] = time.monotonic,
        machine: str | None = None,
        pulse: bool = True,
    ) -> None:
        """`machine` is where this process says it runs; without `pulse` the caller calls `beat`."""
        self.nonce = uuid.uuid4().hex[:16]
        self.path = folder / f"_writer-{self.nonce}.jsonl"
        self._folder, self._competes, self._clock = folder, competes, clock
        self._machine = _machine() if machine is None else machine
        self._held: dict[int, int] = {}
        self._seen: dict[int, tuple[int, float, bool]] = {}  # by inode: size, since, has it grown
        self._descriptor = -1
        self._writing, self._stop = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self._pulse, self._synced, self._beats = pulse, clock(), 0
        self._torn, self.has_noted = b"", False

    def open(self) -> None:
        """Makes this process' file; others see it from now on."""
        try:
            self._descriptor = _create(self.path)
            is_locked = True
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # a file system without locks: others go by the pulse
                is_locked = False
            who = {"host": platform.node(), "pid": os.getpid(), "machine": self._machine}
            self._append({**who, "locked": is_locked})
        except OSError as error:
            raise atomic.write_error(self.path, error) from error
        if self._competes and self._pulse:
            self._thread = threading.Thread(target=self._beat_on, name="pulse", daemon=True)
            self._thread.start()

    def note(self, part: journal.Part, fingerprint: str) -> None:
        """Notes a part in the journal, before it has its name."""
        try:
            self._append({**part, "fingerprint": fingerprint})
            self.has_noted = True
            if self._competes or self._clock() - self._synced > 1:
                self._sync()
        except OSError as error:
            raise atomic.write_error(self.path, error) from error

    def sync(self) -> None:
        """Brings the journal to disk, and so to other hosts."""
        try:
            self._sync()
        except OSError as error:
            raise atomic.write_error(self.path, error) from error

    def _sync(self) -> None:
        self._synced = self._clock()
        os.fsync(self._descriptor)

    def beat(self) -> None:
        """Shows others that this process lives; a full disk ends no run here."""
        self._beats += 1
        with contextlib.suppress(OSError):
            self._append({"beat": self._beats})
            self._sync()

    def acquire(self, index: int) -> bool:
        """Takes a lease on a part unless another process, which may be alive, holds one."""
        if not self._competes or index in self._held:
            return True
        number = 1
        if not self._link(index, number):
            while self._lease(index, number + 1).exists():
                number += 1
            if self.is_dead(self._lease(index, number)) is not True:
                return False
            number += 1
            if not self._link(index, number):
                return False
        self._held[index] = number
        return True

    def release(self, index: int) -> None:
        """Removes the lease on a part, and those of dead processes."""
        for number in range(1, self._held.pop(index, 0) + 1):
            with contextlib.suppress(OSError):
                self._lease(index, number).unlink()

    def is_held(self, index: int) -> bool:
        """Whether another process holds a part, and is known to live."""
        number = 1
        while self._lease(index, number + 1).exists():
            number += 1
        return self.is_dead(self._lease(index, number)) is False

    def close(self) -> None:
        """Releases everything; the journal stays if it lists a part."""
        if self._descriptor < 0:
            return
        self._stop.set()
        if self._thread and self._thread.ident:  # one that was started
            self._thread.join()
        for index in list(self._held):
            self.release(index)
        os.close(self._descriptor)
        self._descriptor = -1
        if not self.has_noted:
            with contextlib.suppress(OSError):
                self.path.unlink()

    def is_dead(self, path: Path) -> bool | None:
        """Whether the process of a lease or a writer's file is dead; None if not known yet."""
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            return None  # it was given back just now
        try:
            status = os.fstat(descriptor)
            header = _header(os.read(descriptor, _HEADER_BYTES))
            is_here = header.get("machine") == self._machine and header.get("locked") is True
            if is_here and locks.can_share(descriptor):
                return True
        finally:
            os.close(descriptor)
        now = self._clock()
        size, file = status.st_size, status.st_ino
        before, since, has_grown = self._seen.get(file, (size, now, False))
        if size != before:
            since, has_grown = now, True
        self._seen[file] = (size, since, has_grown)
        if now - since >= PATIENCE_S:
            return True
        return False if is_here or has_grown else None

    def others(self) -> Iterator[tuple[str, str]]:
        """The nonces of other processes that may live, and what they are called."""
        for path in self._folder.glob(journal.PATTERN):
            if path != self.path and self.is_dead(path) is not True:
                with contextlib.suppress(OSError), open(path, "rb") as file:
                    who = _header(file.read(_HEADER_BYTES))
                    yield _nonce(path), f"process {who.get('pid')} on {who.get('host')}"

    def _append(self, value: dict[str, Any]) -> None:
        with self._writing:
            left = self._torn + journal.line(value)
            self._torn = b"\n"  # a line that a full disk cuts does not spoil the next
            while left:
                left = left[os.write(self._descriptor, left) :]
            self._torn = b""

    def _beat_on(self) -> None:
        while not self._stop.wait(BEAT_S):
            self.beat()

    def _lease(self, index: int, number: int) -> Path:
        return self._folder / f"_lease-{index:05d}.{number}"

    def _link(self, index: int, number: int) -> bool:
        """Whether this process has a lease now; where nothing can be linked, it needs none."""
        with contextlib.suppress(OSError):
            return publishing.link(self.path, self._lease(index, number), rename=False)
        return True


def _create(path: Path) -> int:
    """Opens a new file, in a folder that another process may have removed while it was empty."""
    while True:
        try:
            return os.open(path, os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_RDWR, 0o666)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)


def _nonce(path: Path) -> str:
    return path.stem.removeprefix("_writer-")


def _header(data: bytes) -> dict[str, Any]:
    return next(journal.read(data), {})


def _machine() -> str:
    """What is the same for two processes only if one kernel knows both."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"{platform.node()}-{uuid.getnode():012x}"

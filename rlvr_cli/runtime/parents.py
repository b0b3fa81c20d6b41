"""Who dies with whom, and who adopts orphans.

What rlvr starts calls `die_with_parent` before it does anything else, so that nothing outlives a
command, whatever ended that: SIGKILL too, which no process can handle.
"""

import ctypes
import os
import signal
import sys
import threading
import time
from pathlib import Path

_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36
_LOOK_S = 0.5  # between two checks for the parent, where the kernel does not report its end


def die_with_parent(parent: int | None = None, number: int = signal.SIGKILL) -> None:
    """Sends this process a signal when the one that started it ends.

    With the pid of `parent` also if that has ended already. Linux counts from the thread that
    started this process, so that the main one should, and forgets it where a program with other
    rights is executed. Elsewhere a thread looks.
    """
    expected = os.getppid() if parent is None else parent
    if sys.platform == "linux":
        _prctl(_SET_PDEATHSIG, number)
    else:
        threading.Thread(target=_look, args=(expected, number), daemon=True).start()
    if os.getppid() != expected:  # it ended before the kernel could report it
        os.kill(os.getpid(), number)


def _look(parent: int, number: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os.kill(os.getpid(), number)


def adopt_orphans() -> None:
    """Makes this process the parent of any descendant whose own parent dies; only on Linux."""
    if sys.platform == "linux":
        _prctl(_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def children() -> list[int]:
    """The processes whose parent is this one; none where /proc does not say."""
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    except OSError:
        return []
    return [int(pid) for pid in text.split()]

"""What Linux offers beyond the standard library: who dies with whom, and who adopts orphans."""

import ctypes
import os
import signal
from pathlib import Path

_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Has the kernel send this process a signal when the one that forked it dies."""
    _prctl(_SET_PDEATHSIG, number)


def adopt_orphans() -> None:
    """Makes this process the parent of any descendant whose own parent dies."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    call = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)
    if call is not None:
        call(option, ctypes.c_ulong(value), 0, 0, 0)


def children() -> list[int]:
    """The processes whose parent is this one; none where /proc does not say."""
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    except OSError:
        return []
    return [int(pid) for pid in text.split()]

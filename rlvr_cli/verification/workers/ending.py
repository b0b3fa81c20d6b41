"""How the end of a process is noticed without reaping it: by Linux's means, or by kqueue."""

import contextlib
import os
import select
import sys
from typing import Protocol


class Watch(Protocol):
    """What a selector finds readable once a process has ended."""

    def fileno(self) -> int: ...

    def close(self) -> None: ...


if sys.platform == "linux":

    class _Descriptor:
        def __init__(self, descriptor: int) -> None:
            self._descriptor = descriptor

        def fileno(self) -> int:
            return self._descriptor

        def close(self) -> None:
            os.close(self._descriptor)

    def watch(pid: int) -> Watch:
        """Something to wait on for the end of a process, to be closed by the caller."""
        return _Descriptor(os.pidfd_open(pid))

    def has_ended(pid: int) -> bool:
        """Whether a child has ended; it stays a zombie, so no other process is given its pid."""
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

else:

    def watch(pid: int) -> Watch:
        """Something to wait on for the end of a process, to be closed by the caller."""
        queue = select.kqueue()
        try:
            queue.control([_exit_of(pid)], 0)
        except ProcessLookupError:  # it has ended already: a timer that has run out says so
            queue.control([select.kevent(pid, select.KQ_FILTER_TIMER, select.KQ_EV_ADD)], 0)
        return queue

    def has_ended(pid: int) -> bool:
        """Whether a child has ended; it stays a zombie, so no other process is given its pid."""
        with contextlib.closing(select.kqueue()) as queue:
            try:
                return bool(queue.control([_exit_of(pid)], 1, 0))
            except ProcessLookupError:
                return True

    def _exit_of(pid: int) -> select.kevent:
        return select.kevent(pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)

"""Starts the process that forks workers, and sends it the requests of the pool."""

import os
import socket
import subprocess
import sys
from typing import Any

from rlvr_cli.errors import UserError
from rlvr_cli.verification.workers import wire

_START = (
    "from rlvr_cli.verification.workers.forkserver import main; "
    "main({descriptor}, {imports}, {parent})"
)


class Forkserver:
    """The process that forks and reaps the workers."""

    def __init__(self, imports: list[str], environment: dict[str, str]) -> None:
        self._control, theirs = socket.socketpair()
        code = _START.format(descriptor=theirs.fileno(), imports=imports, parent=os.getpid())
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", code],
                env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
                stdin=subprocess.DEVNULL,
                stdout=sys.__stderr__.fileno() if sys.__stderr__ else subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def fork(self, descriptor: int) -> int:
        """A new worker that talks over this socket; its pid."""
        socket.send_fds(self._control, [wire.pack({})], [descriptor])
        return int(self._answer()["pid"])

    def end(self, pid: int, grace_s: float) -> int | None:
        """Kills a worker with its group and reaps it; the exit status of one that was dead."""
        self._control.sendall(wire.pack({"end": pid, "grace_s": grace_s}))
        status: int | None = self._answer()["status"]
        return status

    def _answer(self) -> Any:
        answer = wire.receive(self._control)
        if answer is None:
            raise UserError(
                f"the process that starts verifiers ended with exit code {self._process.wait()}",
                "run the same command again; finished parts are kept",
            )
        return answer

    def close(self) -> None:
        self._control.close()
        self._process.wait()

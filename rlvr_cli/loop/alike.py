"""That the processes of a run have one configuration and one directory, on however many machines.

They are started one by one where a launcher such as srun does it, or a user on each node.
"""

import socket
import time
from pathlib import Path

from rlvr_cli import __version__
from rlvr_cli.config import RunConfig
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.runtime import distributed
from rlvr_cli.storage import locks

_VISIBLE_S = 60.0  # NFS may remember for so long that a file was not there


def require_configuration(config: RunConfig) -> None:
    """Refuses a process that was started with other options than the main one, or another rlvr."""
    options = {
        f"[{table}] {name}": value
        for table, values in vars(config).items()
        for name, value in vars(values).items()
    }
    own = {"rlvr": __version__, **options}
    for rank, (host, theirs) in enumerate(distributed.gather((socket.gethostname(), own))):
        if rank == 0:
            main = theirs
        for name in main.keys() | theirs.keys():
            if (was := main.get(name)) != (given := theirs.get(name)):
                raise UsageError(
                    f"process {rank} on `{host}` has {name} {given!r}, and process 0 has {was!r}",
                    "start all with the same command, configuration and version of rlvr",
                )


def require_directory(path: Path, lock: Path) -> None:
    """Refuses a process that does not see the directory whose lock the main process holds."""
    holder: locks.Holder | None = distributed.broadcast(locks.holder(lock))
    deadline = time.monotonic() + min(_VISIBLE_S, distributed.timeout_s() / 2)
    while not (is_seen := locks.holder(lock) == holder) and time.monotonic() < deadline:
        time.sleep(0.1)
    seen = distributed.gather((socket.gethostname(), is_seen))
    if blind := sorted({host for host, sees in seen if not sees}):
        raise DataError(
            f"`{path}` on `{', '.join(blind)}` is not the one that process 0 on `{seen[0][0]}` has",
            "name a place with --out on storage that all nodes share, under the same path",
        )

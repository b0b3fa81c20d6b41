"""The processes that share a stage's work: their ranks, barriers and broadcasts, starting them.

A process reads its rank from the variables that torchrun, deepspeed or srun set.
"""

import atexit
import contextlib
import functools
import json
import os
import re
import signal
import socket
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from rlvr_cli.errors import FAILED, UsageError, UserError
from rlvr_cli.runtime import network, parents, signals

_NAMES = {
    "RANK": ("SLURM_PROCID",),
    "WORLD_SIZE": ("SLURM_STEP_NUM_TASKS",),  # set by srun, and not in the batch script itself
    "LOCAL_RANK": ("SLURM_LOCALID",),
    "LOCAL_WORLD_SIZE": ("LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE"),  # deepspeed's, srun's
}
_PORT = 29500
IFNAME = "GLOO_SOCKET_IFNAME"
CUT_OFF = 76  # of a process whose connection to one of another node is gone: its launcher says why
IS_WATCHED = "RLVR_NODES"  # set where it does
_TIMED_OUT = re.compile(
    r"[Tt]imed out (waiting|after)|Watchdog caught collective operation timeout"
)
_CUT_OFF = re.compile(
    r"Connection (closed|reset) by peer|Broken pipe|ncclRemoteError|remote process exited|"
    r"[Ff]ailed to (send|recv)"
)


@dataclass(frozen=True)
class World:
    """The rank of this process among all that run the same command."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int | None = None  # None if the launcher does not say

    def __str__(self) -> str:
        where = f" on `{socket.gethostname()}`" if self.is_spread else ""
        return f"process {self.rank} of {self.size}{where}"

    @property
    def is_spread(self) -> bool:
        """Whether other machines run some of them, as far as the launcher says."""
        return self.local_size not in (None, self.size)

    @property
    def is_main_process(self) -> bool:
        """Whether this process writes the files that are written once."""
        return self.rank == 0


@functools.cache
def current() -> World:
    """The rank that the launcher set; without a launcher, a single process."""
    values = {name: _variable(name, *others) for name, others in _NAMES.items()}
    rank, size, local, local_size = (values[name] for name in _NAMES)
    if size is None or size == 1 or rank is None:
        return World()
    return World(rank, size, rank if local is None else local, local_size)


def _variable(*names: str) -> int | None:
    """The number that the first of these begins with: srun writes `8(x2)` for two nodes."""
    values = (os.environ[name] for name in names if name in os.environ)
    matches = (re.match(r"\d+", value) for value in values)
    return next((int(match[0]) for match in matches if match), None)


def node_of_slurm(count: int) -> int | None:
    """The number of this node among those of the step that srun started, if they are so many."""
    return _variable("SLURM_NODEID") if _variable("SLURM_STEP_NUM_NODES") == count else None


def meeting_place() -> str | None:
    """Where processes meet by the launcher's word: HOST:PORT of MASTER_ADDR, or of Slurm's step."""
    host, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    nodes = os.environ.get("SLURM_STEP_NODELIST")
    if nodes and not host:
        first = re.match(r"(?:[^,\[]|\[[^]]*\])*", nodes)  # as rack1n[05-06] of rack1n[05-06],n7
        assert first is not None, "the pattern takes the empty text, too"
        host = re.sub(r"\[([^],-]+)[^]]*\]", r"\1", first[0])
    if port and not host:
        host = "127.0.0.1"
    if nodes and not port:
        port = str(15000 + (_variable("SLURM_JOB_ID") or 0) % 15000)  # jobs may share a node
    return f"{host}:{port or _PORT}" if host else None


def start() -> World:
    """Connects the processes; `torch.distributed` is ready afterwards, even for a single one."""
    import torch
    from torch import distributed

    world = current()
    if distributed.is_initialized():
        return world
    os.environ |= {
        "RANK": str(world.rank),
        "WORLD_SIZE": str(world.size),
        "LOCAL_RANK": str(world.local_rank),
    }
    if world.size == 1:
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        os.environ["MASTER_PORT"] = "0"
    else:
        _prepare_network(world)
    device = None
    if torch.cuda.is_available():
        device = torch.device("cuda", _gpu(world, torch.cuda.device_count()))
        torch.cuda.set_device(device)
    try:
        distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if device else "gloo",
            device_id=device,
            timeout=timedelta(seconds=timeout_s()),
            **_store(world),
        )
    except (RuntimeError, distributed.DistError) as error:
        raise _unreachable(world, str(error).partition("\n")[0][:200]) from error
    return world


def _prepare_network(world: World) -> None:
    """Says where the processes meet, and through which interface gloo speaks on several nodes."""
    place = meeting_place()
    if place is None:
        raise UsageError(
            f"this is {world}, and MASTER_ADDR is not set",
            "export MASTER_ADDR=HOST MASTER_PORT=29500, HOST the node of process 0",
        )
    host, _, port = place.rpartition(":")
    os.environ |= {"MASTER_ADDR": host, "MASTER_PORT": port}
    if world.local_size != world.size and IFNAME not in os.environ:
        own = network.source(host, int(port))
        own = own or (network.default_source() if world.is_spread else None)
        if interface := network.interfaces().get(own or ""):
            os.environ[IFNAME] = interface


def _gpu(world: World, count: int) -> int:
    """The GPU of this process among those that it sees; Slurm may show each process its own."""
    if world.local_rank < count:
        return world.local_rank
    if count == 1 and not is_launched():
        return 0
    raise UsageError(
        f"{world} is number {world.local_rank} of its machine from 0 on, which has {count} GPUs",
        "start one process a GPU",
    )


def _unreachable(world: World, why: str) -> UserError:
    place, interface = meeting_place(), os.environ.get(IFNAME)
    hint = "choose another MASTER_PORT if it is in use, and check that all processes were started"
    if "connectFullMesh" in why or "getaddrinfo" in why or "find address" in why:
        others = sorted({*network.interfaces().values()} - {interface, "lo"})
        hint = f"name the interface that leads to the others: `export {IFNAME}=NAME`" + (
            f", NAME one of {', '.join(others)}" if others else ""
        )
    through = f" through `{interface}`" if interface else ""
    return UserError(f"{world} cannot reach the others at {place}{through}: {why}", hint)


def _store(world: World) -> dict[str, Any]:
    """A single process needs no port."""
    from torch.distributed import HashStore  # type: ignore[attr-defined]

    if world.size > 1:
        return {}
    return {"store": HashStore(), "rank": 0, "world_size": 1}


def gather(value: Any) -> list[Any]:
    """The value of each process, by rank; every process must call this."""
    from torch import distributed

    world = current()
    if world.size == 1:
        return [value]
    start()
    values = [None] * world.size
    try:
        distributed.all_gather_object(values, value)
    except RuntimeError as error:
        raise lost(error) or error from error
    return values


def timeout_s() -> float:
    """How long a process waits for the others."""
    text = os.environ.get("RLVR_TIMEOUT_S", "1800")
    if not text.isdecimal() or text == "0":
        raise UsageError(f"RLVR_TIMEOUT_S is `{text}`", "write an integer of seconds, as in 1800")
    return float(text)


def lost(error: BaseException) -> UserError | None:
    """The error for a process that timed out waiting for others, None for other errors."""
    if not _TIMED_OUT.search(str(error)):
        return None
    world = current()
    return UserError(
        f"{world} timed out: it waited {timeout_s():g} s for the others",
        "one of them hangs or needs longer than that: see what it does, or allow more time with "
        "`export RLVR_TIMEOUT_S=7200`",
    )


def is_cut_off(error: BaseException) -> bool:
    """Whether a process that this one spoke with has ended."""
    is_of_torch = current().size > 1 and isinstance(error, RuntimeError)
    return is_of_torch and bool(_CUT_OFF.search(str(error)))


def barrier() -> None:
    """Returns once every process has called this."""
    gather(None)


def broadcast(value: Any) -> Any:
    """The value of the main process; every process must call this."""
    return gather(value)[0]


def leave(code: int = 0) -> None:
    """Ends this process, whose work is done, without the end of the interpreter.

    Threads of torch's process groups that still run there may abort the process.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # its reader is gone
            stream.flush()
    os._exit(code)


class Ending:
    """Ends this process after all exit handlers that are registered later have run.

    The destructors of libraries would follow: pyarrow's abort at times, when a thread of its pool
    has just been started, and those of torch take a while.
    """

    code = FAILED  # unless the process gets to its end

    def __init__(self) -> None:
        atexit.register(lambda: leave(self.code))


def is_launched() -> bool:
    """Whether `spawn` or torchrun started this process and reports its failure."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def note_failure(message: str, hint: str) -> None:
    """Writes the failure of this process for its launcher, which passes it to other nodes."""
    if path := os.environ.get("TORCHELASTIC_ERROR_FILE"):
        record = json.dumps({"message": message, "hint": hint, "timestamp": int(time.time())})
        with contextlib.suppress(OSError), open(path, "w") as file:
            file.write(record)


def end_with_launcher(launcher: int | None = None) -> None:
    """Has this process end with the one that launched it, which says why.

    That is `spawn`, torchrun or deepspeed's; Slurm ends the tasks of srun itself.
    """
    if is_launched():
        for number in signals.handled():
            signal.signal(number, signal.SIG_DFL)
    if is_launched() or "CROSS_RANK" in os.environ:
        parents.die_with_parent(launcher)

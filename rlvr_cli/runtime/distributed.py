"""The processes that share a stage's work: their ranks, barriers and broadcasts, starting them.

A process learns its rank from the variables that torchrun, deepspeed or srun set.
"""

import atexit
import contextlib
import functools
import os
import re
import signal
import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from rlvr_cli.errors import FAILED, Interrupted, UsageError, UserError
from rlvr_cli.runtime import parents, signals

_NAMES = {
    "RANK": ("SLURM_PROCID",),
    "WORLD_SIZE": ("SLURM_STEP_NUM_TASKS",),  # set by srun, and not in the batch script itself
    "LOCAL_RANK": ("SLURM_LOCALID",),
}
_STOPPED_S = 3  # until a process that was told to end is killed
_TIMED_OUT = re.compile(
    r"[Tt]imed out (waiting|after)|Watchdog caught collective operation timeout"
)


@dataclass(frozen=True)
class World:
    """The rank of this process among all that run the same command."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def is_main_process(self) -> bool:
        """Whether this process writes the files that are written once."""
        return self.rank == 0


@functools.cache
def current() -> World:
    """The rank that the launcher set; without a launcher, a single process."""
    values = {name: _variable(name, *others) for name, others in _NAMES.items()}
    rank, size, local = (values[name] for name in _NAMES)
    if size is None or size == 1 or rank is None:
        return World()
    return World(rank, size, rank if local is None else local)


def _variable(*names: str) -> int | None:
    values = (os.environ[name] for name in names if name in os.environ)
    return next((int(value) for value in values), None)


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
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    if world.size == 1:
        os.environ["MASTER_PORT"] = "0"
    elif "MASTER_PORT" not in os.environ:
        raise UsageError(
            f"this is process {world.rank} of {world.size}, and MASTER_PORT is not set",
            "export MASTER_ADDR and MASTER_PORT, as docs/cluster.md does for srun",
        )
    device = None
    if torch.cuda.is_available():
        torch.cuda.set_device(world.local_rank)
        device = torch.device("cuda", world.local_rank)
    try:
        distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if device else "gloo",
            device_id=device,
            timeout=timedelta(seconds=timeout_s()),
            **_store(world),
        )
    except (RuntimeError, distributed.DistError) as error:
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise UserError(
            f"process {world.rank} of {world.size} cannot reach the others at {address}: "
            f"{str(error).partition(chr(10))[0][:200]}",
            "choose another MASTER_PORT if it is in use, and check that all processes were started",
        ) from error
    return world


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
        raise UsageError(f"RLVR_TIMEOUT_S is `{text}`", "write whole seconds, as in 1800")
    return float(text)


def lost(error: BaseException) -> UserError | None:
    """The error for a process that timed out waiting for others, None for other errors."""
    if not _TIMED_OUT.search(str(error)):
        return None
    world = current()
    return UserError(
        f"process {world.rank} of {world.size} timed out: it waited {timeout_s():g} s for "
        "the others",
        "one of them hangs or needs longer than that: see what it does, or allow more time with "
        "`export RLVR_TIMEOUT_S=7200`",
    )


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
    """Ends this process once all else that runs at its end has run, if it is made before that.

    What follows would be the destructors of libraries: pyarrow's abort at times, when a thread of
    its pool has just been started, and those of torch take a while.
    """

    code = FAILED  # unless the process gets to its end

    def __init__(self) -> None:
        atexit.register(lambda: leave(self.code))


def is_launched() -> bool:
    """Whether `spawn` or torchrun started this process and reports its failure."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def end_with_launcher(launcher: int | None = None) -> None:
    """Has this process end with the one that launched it, which says why.

    That is `spawn`, torchrun or deepspeed's; Slurm ends the tasks of srun itself.
    """
    if is_launched():
        for number in signals.handled():
            signal.signal(number, signal.SIG_DFL)
    if is_launched() or "CROSS_RANK" in os.environ:
        parents.die_with_parent(launcher)


def spawn(processes: int, arguments: list[str]) -> int:
    """Runs an `rlvr` command line in several processes of this machine; their exit code.

    The first process that fails stops the others. If a signal killed it, the error names it. They
    die with this process, and a signal that ends it ends them first.
    """
    import logging
    import uuid

    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    for name in list(logging.root.manager.loggerDict):  # each has a level of its own
        if name.startswith("torch.distributed.elastic"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // processes)))
    configuration = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
        monitor_interval=0.2,
        logs_specs=DefaultLogsSpecs(),
        signals_to_handle=",".join(number.name for number in signals.handled()),
        shutdown_timeout=_STOPPED_S,
    )
    code = f"from rlvr_cli.cli.app import main; main({os.getpid()})"
    try:
        elastic_launch(configuration, sys.executable)("-P", "-c", code, *arguments)
    except SignalException as error:
        raise Interrupted(signals.words(error.sigval)) from error
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        if failure.exitcode > 0:
            return failure.exitcode
        name = signal.Signals(-failure.exitcode).name
        if -failure.exitcode in signals.STOPPING:
            raise Interrupted(
                f"process {rank} of {processes} was ended by {name}, and the others with it; "
                "finished parts are kept"
            ) from error
        raise UserError(
            f"process {rank} of {processes} was killed by {name}; the others were stopped",
            "run the same command again to resume; if it ran out of memory, use smaller batches",
        ) from error
    return 0

"""Starts the processes of a command on this machine, and says which of them failed."""

import logging
import os
import signal
import sys
import uuid
from typing import Any

from rlvr_cli.errors import Interrupted, UserError
from rlvr_cli.runtime import distributed, signals
from rlvr_cli.runtime.nodes import NodeOptions, Nodes

_STOPPED_S = 3  # from asking a process to end until it is killed


def spawn(processes: int, arguments: list[str], options: NodeOptions) -> int:
    """Runs an `rlvr` command line in several processes of this machine; their exit code.

    The first process that fails stops the others, also those of other nodes. If a signal killed
    it, the error names it. They die with this process, and a signal that ends it ends them first.
    """
    nodes = Nodes(options, processes) if options.count > 1 else None
    error: UserError | None = None
    try:
        rendezvous = _met(nodes) if nodes else {
            "rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0"
        }  # fmt: skip
        code = _run(processes, arguments, nodes, rendezvous)
        if nodes and code == 0 and nodes.failure:
            raise nodes.failure
    except KeyboardInterrupt:
        error = Interrupted(signals.words())
        raise
    except UserError as failed:
        error = failed
        raise
    finally:
        if nodes:
            nodes.end(error)
    return code


def _met(nodes: Nodes) -> dict[str, Any]:
    """The options of torchrun's agent that say how its nodes met."""
    from rlvr_cli.runtime._rendezvous import BACKEND, Met

    store = nodes.meet()
    os.environ[distributed.IS_WATCHED] = str(nodes.count)
    met = Met(nodes, store, "elastic")
    return {"rdzv_backend": BACKEND, "rdzv_configs": {"met": met}}


def _run(
    processes: int, arguments: list[str], nodes: Nodes | None, rendezvous: dict[str, Any]
) -> int:
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    for name in list(logging.root.manager.loggerDict):  # each has a level of its own
        if name.startswith("torch.distributed.elastic"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // processes)))
    count = nodes.count if nodes else 1
    configuration = LaunchConfig(
        min_nodes=count,
        max_nodes=count,
        nproc_per_node=processes,
        run_id=uuid.uuid4().hex,
        max_restarts=0,
        monitor_interval=0.2,
        logs_specs=DefaultLogsSpecs(),
        signals_to_handle=",".join(number.name for number in signals.handled()),
        shutdown_timeout=_STOPPED_S,
        **rendezvous,
    )
    code = f"from rlvr_cli.cli.app import main; main({os.getpid()})"
    try:
        elastic_launch(configuration, sys.executable)("-P", "-c", code, *arguments)
    except SignalException as error:
        raise Interrupted(_on(nodes, signals.words(error.sigval))) from error
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        return _failed(rank, failure, nodes, nodes.processes if nodes else processes)
    except RuntimeError as error:  # of the store of the first node
        raise (nodes and nodes.explain()) or error from error
    return 0


def _failed(rank: int, failure: Any, nodes: Nodes | None, size: int) -> int:
    """The exit code of a process that reported its error; an error for one that did not."""
    who = f"process {rank} of {size}" + (f" on `{nodes.names[nodes.rank]}`" if nodes else "")
    number = -failure.exitcode
    if nodes and number in (-distributed.CUT_OFF, signal.SIGABRT) and (other := nodes.explain()):
        raise other
    if failure.exitcode == distributed.CUT_OFF:
        raise UserError(
            f"{who} lost its connection to another node, which lives",
            "look at the network between them; the same command on all nodes resumes",
        )
    if failure.exitcode > 0:
        if nodes:
            nodes.end(_reported(who, failure))
        return int(failure.exitcode)
    name = signal.Signals(number).name
    if number in signals.STOPPING:
        raise Interrupted(
            f"{who} was ended by {name}, and the others with it; finished parts are kept"
        )
    raise UserError(
        f"{who} was killed by {name}; the others were stopped",
        "run the same command again to resume; if it ran out of memory, use smaller batches",
    )


def _reported(who: str, failure: Any) -> UserError:
    """The error that a process of this node reported before it ended, for the other nodes."""
    data = failure.error_file_data
    error = UserError(f"{who} failed", "see its own message")
    if "hint" in data:
        text = str(failure.message)
        named = text if text.startswith("process ") else f"{who}: {text}"
        error = UserError(named, data["hint"])
    error.exit_code = failure.exitcode
    return error


def _on(nodes: Nodes | None, words: str) -> str:
    return f"{nodes.name(nodes.rank)} was {words}" if nodes else words

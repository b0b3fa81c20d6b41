"""The machines of a run: they meet at one address, and each notices when another fails or is gone.

The agents of torchrun do not report a failure to one another: the others would notice it when a
collective fails, or after half an hour where a machine lost its power. So the launchers watch one
another through the store in which they met: each updates a beat there every second, and the first
that fails writes why.
"""

import contextlib
import json
import os
import socket
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from rlvr_cli.errors import INTERRUPTED, Interrupted, UsageError, UserError, first_line
from rlvr_cli.runtime import distributed, network
from rlvr_cli.terminal import console

if TYPE_CHECKING:
    from torch.distributed import Store  # type: ignore[attr-defined]

BEAT_S = 1.0
SILENT_S = 30.0  # without a beat, after which a node is given up
_PATIENCE_S = 6.0  # for a word of why a connection was lost
_MISSED_S = 3.5  # without a beat, of a node whose connections are gone as well
_LINGER_S = 2.5  # for the others to read why a run fails, of the node that has the store
_ANSWER_S = timedelta(seconds=5)
_SAYS_AFTER_S = 5.0
_DONE = "done"
_OF_KUBERNETES = "KUBERNETES_SERVICE_HOST"  # set in every pod


@dataclass(frozen=True)
class NodeOptions:
    """The options of a command line about its nodes."""

    count: int = 1
    rank: int | None = None
    endpoint: str | None = None

    def place(self) -> tuple[str, int]:
        """The host and port where the nodes meet."""
        text = self.endpoint or distributed.meeting_place()
        if text is None:
            raise UsageError(
                f"--nnodes is {self.count}, and nothing says where they meet",
                "name the first node and a free port there on all of them, as in "
                "--rdzv-endpoint node1:29500",
            )
        host, _, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
            raise UsageError(
                f"--rdzv-endpoint is `{text}`",
                "write host:port, as in node1:29500 or [fd00::1]:29500",
            )
        return host, int(port)

    def own_rank(self) -> int | None:
        """The number of this node, if an option or Slurm gives it."""
        rank = self.rank if self.rank is not None else distributed.node_of_slurm(self.count)
        if rank is not None and rank >= self.count:
            raise UsageError(
                f"--node-rank is {rank}, and --nnodes {self.count}",
                f"number the nodes from 0 to {self.count - 1}",
            )
        return rank


class Nodes:
    """The nodes that run one command; `rank` is that of this one once they have met."""

    def __init__(self, options: NodeOptions, processes: int) -> None:
        self.count, self.host, self.port = options.count, *options.place()
        self._rank = options.own_rank()
        self.rank, self.names, self.processes = -1, [""] * options.count, processes
        self.failure: UserError | None = None
        self._reason, self._end = "", threading.Event()
        self._beats: dict[int, tuple[bytes, float]] = {}
        self._answered = time.monotonic()
        self._silent_s = min(SILENT_S, distributed.timeout_s())

    def name(self, rank: int) -> str:
        return f"node {rank} (`{self.names[rank]}`)"

    @property
    def reached_at(self) -> str:
        """Where this node reaches the store; the first does so under any name that others use."""
        return "localhost" if self.rank == 0 else self.host

    def meet(self) -> "Store":
        """The store in which all nodes met; from then on each watches the others."""
        self._require_known_host()
        start = time.monotonic()
        self._says_at = start + _SAYS_AFTER_S
        while True:
            try:
                store = self._connect()
                if store is not None and self._register(store, start):
                    break
            except (RuntimeError, TimeoutError) as error:
                self._reason = f"what answers there is not another node {first_line(error)}".strip()
            self._wait(start, self._reason)
        self._choose_interface()
        watching, self._end_store = (self._client(self.reached_at) for _ in range(2))
        for work in (self._beat_on, self._look_on):
            threading.Thread(target=work, args=(watching,), daemon=True).start()
        return store

    def _require_known_host(self) -> None:
        """An error where no host has the name; in Kubernetes it may get one once its pod is there.

        The first node needs no name for itself.
        """
        if self._rank == 0 or _OF_KUBERNETES in os.environ:
            return
        if why := network.unknown(self.host):
            raise UsageError(
                f"the nodes are to meet at `{self.host}`, and this machine knows no such host: "
                f"{why}",
                "write a name that it knows, or an address, as in "
                f"--rdzv-endpoint 10.0.0.1:{self.port}",
            )

    def _wait(self, start: float, why: str) -> None:
        now, limit_s = time.monotonic(), distributed.timeout_s()
        where = f"`{self.host}:{self.port}`"
        if now > start + limit_s:
            raise UserError(
                f"{self.count} nodes did not meet at {where} within {limit_s:g} s: {why}",
                "start the same command on each; the first of them must be reachable there from "
                "the others",
            )
        if now > self._says_at:
            self._says_at = float("inf")
            console.say(f"waiting for {self.count} nodes at {where}: {why}")
        time.sleep(0.2)

    def _connect(self) -> "Store | None":
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        if self._rank == 0 or (self._rank is None and network.is_own(self.host)):
            try:
                store = TCPStore(
                    "localhost", self.port, is_master=True, timeout=_ANSWER_S,
                    wait_for_workers=False,
                )  # fmt: skip
                self.rank = 0
                return store
            except RuntimeError as error:
                if "EADDRINUSE" not in str(error):
                    raise
                if self._rank == 0:
                    self._reason = f"port {self.port} of this machine is in use"
                    return None
                return self._client("localhost")
        try:  # TCPStore would print its attempts
            socket.create_connection((self.host, self.port), timeout=2).close()
        except (OSError, UnicodeError) as error:
            self._reason = f"`{socket.gethostname()}` does not reach it: {error}"
            return None
        return self._client(self.host)

    def _client(self, host: str) -> "Store":
        """A connection to the store; an error if something else answers, which may be silent."""
        from torch.distributed import TCPStore  # type: ignore[attr-defined]

        connection: Future[Store] = Future()

        def connect() -> None:
            try:
                connection.set_result(
                    TCPStore(host, self.port, timeout=_ANSWER_S, wait_for_workers=False)
                )
            except RuntimeError as error:
                connection.set_exception(error)

        threading.Thread(target=connect, daemon=True).start()
        return connection.result(2 * _ANSWER_S.total_seconds())

    def _register(self, store: "Store", start: float) -> bool:
        """Whether all nodes are there; a store of an earlier attempt, that ends now, is left."""
        if store.check(["failure"]):
            self._reason = "a run that failed is ending there"
            return False
        rank = self.rank if self.rank == 0 else self._rank
        rank = store.add("next", 1) if rank is None else rank
        if rank >= self.count:
            self._reason = f"{self.count} nodes are there already"
            return False
        address = network.source(self.host, self.port) if rank else None
        own = json.dumps({"host": socket.gethostname(), "address": address, "pid": os.getpid(),
                          "processes": self.processes})  # fmt: skip
        there = store.compare_set(f"node/{rank}", "", own).decode()
        if there != own:
            self._reason = f"`{json.loads(there)['host']}` is node {rank} there"
            return False
        store.set(f"beat/{rank}", "0")
        keys = [f"node/{i}" for i in range(self.count)]
        while not store.check(keys):
            here = sum(store.check([key]) for key in keys)
            self._wait(start, f"{here} there, `{socket.gethostname()}` as node {rank}")
        self.rank = rank
        store.set_timeout(timedelta(seconds=distributed.timeout_s()))
        self._others = [json.loads(value) for value in store.multi_get(keys)]
        self.names = [other["host"] for other in self._others]
        self.processes = sum(other["processes"] for other in self._others)
        return True

    def _choose_interface(self) -> None:
        """Has gloo speak through the interface that leads to the others.

        By itself it takes that of the machine's name, which often is a loopback one.
        """
        addresses = [other["address"] for other in self._others if other["address"]]
        own = self._others[self.rank]["address"]
        if self.rank == 0 and addresses:
            own = network.source(addresses[0], self.port)
        interface = network.interfaces().get(own or "")
        if interface:
            os.environ.setdefault(distributed.IFNAME, interface)

    def _beat_on(self, store: "Store") -> None:
        others = [i for i in range(self.count) if i != self.rank]
        with contextlib.suppress(RuntimeError):
            while not self._end.wait(BEAT_S):
                store.set(f"beat/{self.rank}", str(time.monotonic_ns()))
                if store.check(["failure"]):
                    self._read(store)
                    return
                ready = [i for i in others if store.check([f"beat/{i}"])]
                now = time.monotonic()
                for i, value in zip(
                    ready, store.multi_get([f"beat/{i}" for i in ready]), strict=True
                ):
                    if value != self._beats.get(i, (b"", 0.0))[0]:
                        self._beats[i] = bytes(value), now
                self._answered = now
        self._answered = min(self._answered, time.monotonic() - _MISSED_S)

    def _read(self, store: "Store") -> None:
        said = json.loads(store.get("failure"))
        self.failure = _error(said["text"], said["hint"], said["code"])
        store.add("read", 1)

    def _look_on(self, store: "Store") -> None:
        while not self._end.wait(BEAT_S):
            if not self.failure and (rank := self._longest_silent(self._silent_s)) is not None:
                self.failure = self._lost(rank)
                return

    def _longest_silent(self, seconds: float) -> int | None:
        """A node that has been silent for so long."""
        now = time.monotonic()
        if self.rank and now - self._answered > seconds:
            return 0
        since = {i: at for i, (value, at) in self._beats.items() if value != _DONE.encode()}
        silent = {i: at for i, at in since.items() if now - at > seconds}
        return min(silent, key=lambda i: silent[i], default=None)

    def _lost(self, rank: int) -> UserError:
        return Interrupted(
            f"{self.name(rank)} is gone: it, or the network, ended; this node was stopped, and "
            "finished parts are kept"
        )

    def explain(self) -> UserError | None:
        """Why a process of this node lost its connection to one of another."""
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline and not self.failure:
            if (rank := self._longest_silent(_MISSED_S)) is not None:
                return self._lost(rank)
            time.sleep(0.1)
        return self.failure

    def end(self, error: UserError | None = None) -> None:
        """Leaves the others; if this node is the first to fail, writes why."""
        if self.rank < 0 or self._end.is_set():
            return
        self._end.set()
        thread = threading.Thread(target=self._publish_end, args=(error,), daemon=True)
        thread.start()
        thread.join(_LINGER_S)  # the first node may be gone without a word

    def _publish_end(self, error: UserError | None) -> None:
        with contextlib.suppress(RuntimeError):
            if error is None:
                self._end_store.set(f"beat/{self.rank}", _DONE)
                return
            said = {"text": str(error), "hint": error.hint, "code": error.exit_code}
            self._end_store.compare_set("failure", "", json.dumps(said))
            while self.rank == 0 and self._end_store.add("read", 0) < self.count - 1:
                time.sleep(0.05)


def _error(text: str, hint: str, code: int) -> UserError:
    if code == INTERRUPTED:
        return Interrupted(text)
    error = UserError(text, hint)
    error.exit_code = code
    return error


_options = NodeOptions()


def set_options(count: int, rank: int | None, endpoint: str | None) -> None:
    """Has the command that runs now start its processes on so many nodes."""
    global _options
    if count == 1 and (rank or endpoint):
        flag = f"--rdzv-endpoint {endpoint}" if endpoint else f"--node-rank {rank}"
        raise UsageError(f"{flag} is for several nodes", "add --nnodes, as in --nnodes 2")
    _options = NodeOptions(count, rank, endpoint)


def options() -> NodeOptions:
    """The nodes that `set_options` recorded last."""
    return _options

"""Verdicts from processes that can be killed: one task at a time in each, each with its clock."""

import contextlib
import os
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlvr_cli.protocols import Group, Limits, Verdict
from rlvr_cli.verification.workers import ending, wire
from rlvr_cli.verification.workers.spawner import Forkserver

RECYCLE = 5000  # tasks after which a process is replaced, as libraries leak
_AHEAD = 16  # tasks that wait in a worker's socket: sending one by one would cost a switch each
_GRACE_S = 1.0  # until a process that closed its socket has ended
_SLOWER = 5.0  # a process that replaces another may take this much longer to load a verifier


Answer = Verdict | list[Verdict]  # a list of a group's; a fault of the process is one verdict


@dataclass(frozen=True)
class Task:
    """One question to a verifier, of one completion or of a group of them."""

    spec: str
    extracted: str | None
    answer: str
    extra: dict[str, Any]
    limits: Limits
    group: Group | None = None


@dataclass
class _Worker:
    pid: int
    channel: socket.socket
    life: ending.Watch  # readable once the process has ended
    inbox: wire.Inbox = field(default_factory=wire.Inbox)
    outbox: bytearray = field(default_factory=bytearray)
    given: deque[int] = field(default_factory=deque)  # tasks it has not answered, in order
    began: float = 0.0  # when it took up the first of them, on the monotonic clock
    deadline: float = 0.0  # of that task
    served: int = 0
    loaded: set[str] = field(default_factory=set)  # the specs of its earlier tasks
    cpu_s: float = 0.0  # that it had used when it took up the first of them
    is_gone: bool = False  # whether its socket is closed

    def begin(self, seconds: float) -> None:
        """Starts the clock of the task that it takes up now."""
        self.began = time.monotonic()
        self.deadline = self.began + seconds

    def is_overdue(self) -> bool:
        return bool(self.given) and time.monotonic() > self.deadline


class Pool:
    """Worker processes, started when the first task comes and ended by `close`.

    A task's clock starts when its process takes it, and stops while that process is ready to run
    but other work has the cores. On a time-out the process is killed with its group and replaced;
    if a process dies, only its current task is affected. With `late_imports` the first time-out is
    not a verdict: the tasks start again with these modules loaded.
    """

    def __init__(
        self,
        size: int,
        *,
        imports: Iterable[str] = (),
        late_imports: Iterable[str] = (),
        environment: dict[str, str] | None = None,
        recycle: int = RECYCLE,
    ) -> None:
        self.size, self._recycle = size, recycle
        self._imports, self._late_imports = {*imports}, {*late_imports} - {*imports}
        self._environment = environment or {}
        self._server: Forkserver | None = None
        self._workers: list[_Worker] = []
        self._first_s: dict[str, float] = {}  # what a verifier's first task took in a process

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every process of the pool."""
        for worker in self._workers:
            worker.channel.close()
            worker.life.close()
        self._workers = []
        if self._server:
            self._server.close()
            self._server = None

    def run(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Answer]]:
        """The verdict of each task, or those of its group, with its index, as they come."""
        queue = deque(range(len(tasks)))
        with selectors.DefaultSelector() as selector:
            try:
                for worker in self._workers:
                    _register(selector, worker)
                while queue or any(worker.given for worker in self._workers):
                    self._feed(queue, tasks, selector)
                    yield from self._step(queue, tasks, selector)
            except BaseException:  # what is under way belongs to nobody any more
                self.close()
                raise

    def _feed(
        self, queue: deque[int], tasks: Sequence[Task], selector: selectors.BaseSelector
    ) -> None:
        """Gives out what waits; a share of it each, so that none idles at the end."""
        busy = sum(bool(worker.given) for worker in self._workers)
        while len(self._workers) < min(self.size, len(queue) + busy):
            worker = self._start()
            self._workers.append(worker)
            _register(selector, worker)
        ahead = max(1, min(_AHEAD, len(queue) // self.size))
        for worker in self._workers:
            while queue and len(worker.given) < ahead and worker.served < self._recycle:
                index = queue.popleft()
                if not worker.given:
                    worker.begin(self._allowed_s(worker, tasks[index]))
                worker.given.append(index)
                worker.served += 1
                worker.outbox += wire.pack(_message(tasks[index]))
            _watch(selector, worker)

    def _step(
        self, queue: deque[int], tasks: Sequence[Task], selector: selectors.BaseSelector
    ) -> Iterator[tuple[int, Answer]]:
        """What comes until the next deadline; the overdue are killed."""
        busy = [worker for worker in self._workers if worker.given]
        nearest = min((worker.deadline for worker in busy), default=time.monotonic())
        for key, events in selector.select(max(0.0, nearest - time.monotonic())):
            worker = key.data
            if worker not in self._workers:  # ended a moment ago
                continue
            if key.fileobj is worker.life:
                yield from self._bury(worker, queue, tasks, selector)
                continue
            if events & selectors.EVENT_WRITE:
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    del worker.outbox[: worker.channel.send(worker.outbox)]
            if events & selectors.EVENT_READ:
                yield from self._read(worker, queue, tasks, selector)
        for worker in list(self._workers):
            if worker.is_overdue():
                index = worker.given[0]
                # First: one that was seen to wait for no core has sent its answer, or is stuck.
                left = _starved(worker, self._allowed_s(worker, tasks[index]))
                yield from self._read(worker, queue, tasks, selector)
                if worker not in self._workers or not worker.given or worker.given[0] != index:
                    continue
                if left > 0:
                    worker.deadline = time.monotonic() + left
                elif self._late_imports:
                    self._load_late_imports(queue, selector)
                    return
                else:
                    worker.given.popleft()
                    self._drop(worker, queue, selector)
                    yield index, Verdict("timeout")
            elif not worker.given and worker.served >= self._recycle:
                self._drop(worker, queue, selector)

    def _load_late_imports(self, queue: deque[int], selector: selectors.BaseSelector) -> None:
        """Replaces every process by one that has loaded them, and puts back what they had.

        From a slow disk, a module that an answer needs loads for longer than a verdict may take.
        """
        for worker in list(self._workers):
            self._drop(worker, queue, selector)
        if self._server:
            self._server.close()
            self._server = None
        self._imports |= self._late_imports
        self._late_imports = set()

    def _read(
        self,
        worker: _Worker,
        queue: deque[int],
        tasks: Sequence[Task],
        selector: selectors.BaseSelector,
    ) -> Iterator[tuple[int, Answer]]:
        for index, verdict in self._answers(worker, tasks):
            yield index, verdict
            if isinstance(verdict, Verdict) and verdict.status == "oom":
                self._drop(worker, queue, selector)
                return
        if worker.is_gone:
            yield from self._bury(worker, queue, tasks, selector)

    def _bury(
        self,
        worker: _Worker,
        queue: deque[int],
        tasks: Sequence[Task],
        selector: selectors.BaseSelector,
    ) -> Iterator[tuple[int, Answer]]:
        """The last results of a process that ended, and the fault of the task that it was at."""
        yield from self._answers(worker, tasks)
        index = worker.given.popleft() if worker.given else None
        status = self._drop(worker, queue, selector, is_dead=True)
        if index is not None:
            yield index, _death(status)

    def _drop(
        self,
        worker: _Worker,
        queue: deque[int],
        selector: selectors.BaseSelector,
        *,
        is_dead: bool = False,
    ) -> int | None:
        """Ends a worker and puts back what it had not begun; its exit status, if it had one."""
        for watched in (worker.channel, worker.life):
            selector.unregister(watched)
        worker.channel.close()
        worker.life.close()
        self._workers.remove(worker)
        queue.extendleft(reversed(worker.given))
        assert self._server
        return self._server.end(worker.pid, grace_s=_GRACE_S if is_dead else 0.0)

    def _start(self) -> _Worker:
        if self._server is None:
            self._server = Forkserver(sorted(self._imports), self._environment)
        ours, theirs = socket.socketpair()
        with theirs:
            pid = self._server.fork(theirs.fileno())
        ours.setblocking(False)
        return _Worker(pid, ours, ending.watch(pid))

    def _allowed_s(self, worker: _Worker, task: Task) -> float:
        """The seconds of a task; more for the first of its verifier in a process, which loads it.

        Once a process has loaded it, another that replaces it has less than that time.
        """
        first = task.limits.first_seconds
        if task.spec in worker.loaded:
            first = 0.0
        elif task.spec in self._first_s:
            first = min(first, _SLOWER * (1.0 + self._first_s[task.spec]))
        return task.limits.seconds + first

    def _answers(self, worker: _Worker, tasks: Sequence[Task]) -> Iterator[tuple[int, Answer]]:
        """The results of a worker since the last call; the next task's clock starts then."""
        while not worker.is_gone:
            try:
                data = worker.channel.recv(1 << 20)
            except BlockingIOError:
                return
            except ConnectionError:
                data = b""
            worker.is_gone = not data
            for message in worker.inbox.feed(data):
                index = worker.given.popleft()
                spec = tasks[index].spec
                if spec not in worker.loaded:
                    worker.loaded.add(spec)
                    took = time.monotonic() - worker.began
                    self._first_s[spec] = max(took, self._first_s.get(spec, 0.0))
                worker.cpu_s = message.pop("cpu_s")
                if worker.given:
                    worker.begin(self._allowed_s(worker, tasks[worker.given[0]]))
                group = message.get("group")
                yield index, Verdict(**message) if group is None else [Verdict(**v) for v in group]


def _message(task: Task) -> dict[str, Any]:
    return {
        "spec": task.spec,
        "extracted": task.extracted,
        "answer": task.answer,
        "extra": task.extra,
        "memory_bytes": task.limits.memory_bytes,
        "group": task.group and vars(task.group),
    }


def _starved(worker: _Worker, seconds: float) -> float:
    """The seconds that a task still has whose process waits for a core; 0 if it waits for else."""
    try:
        with open(f"/proc/{worker.pid}/stat") as file:
            state, *numbers = file.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    used = sum(map(int, numbers[10:12])) / os.sysconf("SC_CLK_TCK") - worker.cpu_s
    return max(0.0, seconds - used) if state == "R" and used < 0.95 * seconds else 0.0


def _register(selector: selectors.BaseSelector, worker: _Worker) -> None:
    for watched in (worker.channel, worker.life):
        selector.register(watched, selectors.EVENT_READ, worker)


def _watch(selector: selectors.BaseSelector, worker: _Worker) -> None:
    events = selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.outbox else 0)
    if selector.get_key(worker.channel).events != events:
        selector.modify(worker.channel, events, worker)


def _death(status: int | None) -> Verdict:
    """What befell the task at which a process ended by itself."""
    if status is None:
        return Verdict("error", reason="its process closed the socket of its results")
    if status == -signal.SIGKILL:
        return Verdict("oom", reason="killed by the kernel, as it does when memory is short")
    if status < 0:
        return Verdict("error", reason=f"its process died of {signal.Signals(-status).name}")
    return Verdict("error", reason=f"its process ended with exit code {status}")

"""Questions to a service, many of them in flight at once, each with its limit of time.

Each is sent by a thread, which waits and computes little. The threads are daemons and nobody
waits for one: an overdue question is abandoned with its thread, and an interrupt ends all of them.
"""

import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence

from rlvr_cli.protocols import Remote, Verdict
from rlvr_cli.verification.remote.client import Failed, Refused
from rlvr_cli.verification.workers.pool import Task

IN_VAIN = 16  # failures of the service in a row, after which no more questions are sent
GRACE_S = 5.0  # beyond a question's own limit, until its thread is given up
_REASON = 200  # characters of an error

Answered = tuple[int, Verdict, Counter[str]]


def run(remote: Remote, tasks: Sequence[Task], *, grace_s: float = GRACE_S) -> Iterator[Answered]:
    """The verdict of each question with its index, as they come, and what it used.

    Once IN_VAIN questions, or as many as are in flight if that is more, have failed in a row as the
    service is away, busy or refuses everything, the others are not sent and fail for that reason.
    """
    waiting = deque(range(len(tasks)))
    given: queue.SimpleQueue[int | None] = queue.SimpleQueue()
    answers: queue.SimpleQueue[tuple[int, Verdict, Counter[str], bool]] = queue.SimpleQueue()
    deadlines: dict[int, float] = {}  # of the questions in flight, on the monotonic clock
    threads = failures = 0

    def start() -> None:
        threading.Thread(target=_ask, args=(remote, tasks, given, answers), daemon=True).start()

    try:
        while waiting or deadlines:
            while waiting and len(deadlines) < remote.in_flight:
                index = waiting.popleft()
                limit = remote.seconds(tasks[index].answer, tasks[index].extra)
                deadlines[index] = time.monotonic() + limit + grace_s
                if threads < len(deadlines):
                    start()
                    threads += 1
                given.put(index)
            left = max(0.0, min(deadlines.values()) - time.monotonic())
            try:
                index, verdict, used, is_of_service = answers.get(timeout=left)
            except queue.Empty:
                now = time.monotonic()
                for index in [index for index, end in deadlines.items() if end <= now]:
                    del deadlines[index]
                    start()
                    yield index, _overdue(), Counter()
                continue
            if index not in deadlines:  # given up before
                continue
            del deadlines[index]
            failures = failures + 1 if is_of_service else 0
            yield index, verdict, used
            if failures >= max(IN_VAIN, remote.in_flight):
                yield from _unasked(waiting, verdict, failures)
    finally:
        for _ in range(threads):
            given.put(None)


def _ask(
    remote: Remote,
    tasks: Sequence[Task],
    given: "queue.SimpleQueue[int | None]",
    answers: "queue.SimpleQueue[tuple[int, Verdict, Counter[str], bool]]",
) -> None:
    """Asks one question after the other, over one connection."""
    with remote.connect() as ask:
        while (index := given.get()) is not None:
            task, used = tasks[index], Counter[str]()
            is_of_service = False
            try:
                assert task.extracted is not None, "what needs no asking is settled before"
                verdict = ask(task.extracted, task.answer, task.extra, used)
            except Failed as error:
                is_of_service = not isinstance(error, Refused)
                verdict = Verdict(error.status, reason=str(error))
            except Exception as error:
                verdict = Verdict("error", reason=f"{type(error).__name__}: {error}"[:_REASON])
            answers.put((index, verdict, used, is_of_service))


def _overdue() -> Verdict:
    return Verdict("timeout", reason="it was not answered in time")


def _unasked(waiting: deque[int], last: Verdict, failures: int) -> Iterator[Answered]:
    """The verdicts on questions that are not sent, as the last ones all failed."""
    reason = f"not asked, as {failures} before it failed: {last.reason}"
    while waiting:
        yield waiting.popleft(), Verdict(last.status, reason=reason), Counter()

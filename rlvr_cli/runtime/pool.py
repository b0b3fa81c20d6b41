"""Fresh processes that share work, and that die with the one that started them."""

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from rlvr_cli.errors import DONE, UserError
from rlvr_cli.runtime import distributed, parents

Task = TypeVar("Task")
Done = TypeVar("Done")


@contextlib.contextmanager
def pool(size: int, prepare: Callable[[], None] | None = None) -> Iterator[ProcessPoolExecutor]:
    """Processes for the work of the block, each of which calls `prepare` first.

    Where the block is left by an error or an interrupt, they are killed in the midst of their work.
    """
    before = set(multiprocessing.active_children())
    with ProcessPoolExecutor(
        size,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(prepare,),
    ) as executor:
        try:
            yield executor
        except BaseException as error:
            executor.shutdown(wait=False, cancel_futures=True)
            for child in set(multiprocessing.active_children()) - before:
                child.kill()
            if isinstance(error, BrokenProcessPool):
                raise UserError(
                    "a process that shared the work was killed",
                    "run the same command again; with fewer processes if memory ran out",
                ) from error
            raise


def _begin(prepare: Callable[[], None] | None) -> None:
    parent = multiprocessing.parent_process()
    parents.die_with_parent(parent.pid if parent else None)
    distributed.Ending().code = DONE
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-c reaches their parent too, which ends them
    if prepare:
        prepare()


def side_by_side(
    work: Callable[[Task], Done], tasks: Sequence[Task], jobs: int | None
) -> Iterator[Done]:
    """The results of `work`, as they complete; in `jobs` processes, one a core by default."""
    jobs = min(jobs or os.cpu_count() or 1, len(tasks))
    if jobs <= 1:
        yield from map(work, tasks)
        return
    with pool(jobs) as executor:
        submitted = [executor.submit(work, task) for task in tasks]
        yield from (done.result() for done in as_completed(submitted))

"""Work shared among processes."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import TypeVar

Task = TypeVar("Task")
Done = TypeVar("Done")


def side_by_side(
    work: Callable[[Task], Done], tasks: Sequence[Task], jobs: int | None
) -> Iterator[Done]:
    """The results of `work`, as they complete; in `jobs` processes, one a core by default."""
    jobs = min(jobs or os.cpu_count() or 1, len(tasks))
    if jobs <= 1:
        yield from map(work, tasks)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from (f.result() for f in as_completed([pool.submit(work, task) for task in tasks]))

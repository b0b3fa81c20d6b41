"""Clusters of the correct completions of each prompt, by any similarity and linkage.

Shapes: N correct completions of a prompt.
"""

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rlvr_cli import registry
from rlvr_cli.evaluation.metrics import ucc
from rlvr_cli.evaluation.metrics.clusters import Clusters, of_texts
from rlvr_cli.evaluation.metrics.ucc import Linkage
from rlvr_cli.evaluation.tallies import Tally
from rlvr_cli.runtime import cores, malloc
from rlvr_cli.runtime.pool import pool
from rlvr_cli.storage import atomic

MANY_TEXTS = 20_000
CHUNKS = 64  # for each process, as prompts differ in length
Work = Callable[[list[str]], Clusters]
WITHOUT_WORKERS = ("embedding",)  # one model in memory, which uses all cores itself


def check(thresholds: Sequence[float], *, linkage: str, similarity: str) -> None:
    """Refuses invalid thresholds, linkages and similarities before anything is read."""
    for threshold in thresholds:
        ucc.check(threshold, linkage)
    registry.build("similarities", similarity)


def of_tally(
    tallied: Tally,
    *,
    thresholds: Sequence[float],
    linkage: Linkage = "single",
    similarity: str = "tfidf",
    representatives: bool = False,
    workers: int | None = None,
) -> list[Clusters]:
    """The clusters of each prompt's correct completions, with `representatives` for `write`.

    Many texts are shared among `workers` processes, as many as there are cores by default.
    """
    check(thresholds, linkage=linkage, similarity=similarity)
    work = partial(
        of_texts,
        similarity=registry.build("similarities", similarity),
        thresholds=tuple(thresholds),
        linkage=linkage,
        representatives=representatives,
    )
    texts = tallied.texts or []
    alone = registry.parse("similarities", similarity)[0] in WITHOUT_WORKERS
    alone |= bool(registry.origins("similarities", similarity))  # it need not be picklable
    if alone or sum(map(len, texts)) < MANY_TEXTS:
        workers = 1
    workers = workers or cores.available()
    malloc.keep_freed()
    if workers == 1:
        return list(map(work, texts))
    size = max(1, len(texts) // (CHUNKS * workers))
    return _shared(work, [texts[i : i + size] for i in range(0, len(texts), size)], workers)


def _shared(work: Work, chunks: list[list[list[str]]], workers: int) -> list[Clusters]:
    """The work on all chunks: this process begins with the first, the others with the last.

    It is one of the workers, as it has the texts already, unless its own BLAS would take the cores
    of the others.
    """
    takes_part = os.environ.get(malloc.BLAS_THREADS) == "1"
    with _one_thread(), pool(workers - takes_part, malloc.keep_freed) as executor:
        futures = [executor.submit(_each, work, chunk) for chunk in reversed(chunks)]
        clusterings: list[Clusters] = []
        for chunk, future in zip(chunks, reversed(futures), strict=True):
            runs_here = takes_part and future.cancel()
            clusterings += _each(work, chunk) if runs_here else future.result()
        return clusterings


def _each(work: Work, chunk: list[list[str]]) -> list[Clusters]:
    return list(map(work, chunk))


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Processes started meanwhile use one BLAS thread each: with one per core of the machine, all
    of them would wait for one another."""
    before = os.environ.get(malloc.BLAS_THREADS)
    os.environ[malloc.BLAS_THREADS] = "1"
    try:
        yield
    finally:
        del os.environ[malloc.BLAS_THREADS]
        if before is not None:
            os.environ[malloc.BLAS_THREADS] = before


def rows(tallied: Tally, clusterings: list[Clusters], threshold: float) -> Iterator[dict[str, Any]]:
    """One readable row a cluster: its size and its representative, largest first."""
    for name, texts, clusters in zip(
        tallied.prompt_id, tallied.texts or [], clusterings, strict=True
    ):
        size_J = clusters.sizes(threshold)
        for rank, label in enumerate(np.argsort(-size_J, kind="stable").tolist()):
            yield {
                "prompt_id": name,
                "threshold": threshold,
                "cluster": rank,
                "clusters": len(size_J),
                "size": int(size_J[label]),
                "correct": len(texts),
                "representative": texts[clusters.representatives[threshold][label]],
            }


def write(
    path: Path, tallied: Tally, clusterings: list[Clusters], thresholds: Sequence[float]
) -> int:
    """Writes the `rows` of every threshold as JSON lines; the number of clusters."""
    listed = [row for threshold in thresholds for row in rows(tallied, clusterings, threshold)]
    atomic.make_folder(path.parent)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in listed)
    atomic.write_atomic(path, text.encode())
    return len(listed)

"""Clusters of the correct completions of each prompt, by any similarity and linkage.

Shapes: N correct completions of a prompt.
"""

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from rlvr_cli import files, lookup
from rlvr_cli.metrics import ucc
from rlvr_cli.metrics.ucc import Linkage
from rlvr_cli.stages.tallies import Tally

MANY_TEXTS = 20_000
WITHOUT_WORKERS = ("embedding",)  # one model in memory, which uses all cores itself


@dataclass(frozen=True)
class Clusters:
    """The clusters of one prompt's correct completions at each threshold.

    `label` has the cluster of each completion, `representatives` the completion that is most
    similar to all of a cluster; both are places among the prompt's correct completions.
    """

    label: dict[float, np.ndarray]
    representatives: dict[float, list[int]]

    def sizes(self, threshold: float) -> np.ndarray:
        """The number of completions in each cluster."""
        return np.bincount(self.label[threshold])


def check(thresholds: Sequence[float], *, linkage: str, similarity: str) -> None:
    """Refuses what no clustering takes, before anything is read."""
    for threshold in thresholds:
        ucc.check(threshold, linkage)
    lookup.build("similarities", similarity)


def of_tally(
    tallied: Tally,
    *,
    thresholds: Sequence[float],
    linkage: Linkage = "single",
    similarity: str = "tfidf",
    workers: int | None = None,
) -> list[Clusters]:
    """The clusters of each prompt's correct completions; the similarities are computed once.

    Many texts are shared among `workers` processes, as many as there are cores by default.
    """
    check(thresholds, linkage=linkage, similarity=similarity)
    spec = lookup.canonical("similarities", similarity)
    texts = tallied.texts or []
    work = partial(_clusters, spec=spec, thresholds=tuple(thresholds), linkage=linkage)
    if spec.partition(":")[0] in WITHOUT_WORKERS or sum(map(len, texts)) < MANY_TEXTS:
        workers = 1
    workers = workers or os.cpu_count() or 1
    if workers == 1:
        return list(map(work, texts))
    chunk = max(1, len(texts) // (8 * workers))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return list(pool.map(work, texts, chunksize=chunk))


def _clusters(
    texts: list[str], *, spec: str, thresholds: tuple[float, ...], linkage: Linkage
) -> Clusters:
    similar = ucc.Similar.of(texts, lookup.build("similarities", spec))
    label = {t: similar.clusters(t, linkage) for t in thresholds}
    return Clusters(label, {t: similar.representatives(label[t]) for t in thresholds})


def rows(tallied: Tally, found: list[Clusters], threshold: float) -> Iterator[dict[str, Any]]:
    """One row a cluster, to be read: its size and its representative, largest first."""
    for name, texts, clusters in zip(tallied.prompt_id, tallied.texts or [], found, strict=True):
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


def write(path: Path, tallied: Tally, found: list[Clusters], thresholds: Sequence[float]) -> int:
    """Writes the `rows` of every threshold as JSON lines; the number of clusters."""
    made = [row for threshold in thresholds for row in rows(tallied, found, threshold)]
    files.make_folder(path.parent)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in made)
    files.write_atomic(path, text.encode())
    return len(made)

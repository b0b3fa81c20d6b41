"""The clusters of one prompt's correct completions.

Worker processes import this module, so it must load fast: numpy and no more. Shapes: N correct
completions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlvr_cli.evaluation.metrics.ucc import Linkage, Similar, Similarity


@dataclass(frozen=True)
class Clusters:
    """The clusters at each threshold.

    `label` has the cluster of each completion, `representatives`, where asked for, the completion
    that is most similar to all of a cluster; both are places among the correct completions.
    """

    label: dict[float, np.ndarray]
    representatives: dict[float, list[int]]

    def sizes(self, threshold: float) -> np.ndarray:
        """The number of completions in each cluster."""
        return np.bincount(self.label[threshold])


def of_texts(
    texts: Sequence[str],
    *,
    similarity: Similarity,
    thresholds: Sequence[float],
    linkage: Linkage,
    representatives: bool,
) -> Clusters:
    """The clusters of these completions; their similarities are computed once."""
    similar = Similar.of(texts, similarity)
    label = {t: similar.clusters(t, linkage) for t in thresholds}
    chosen = {t: similar.representatives(label[t]) for t in thresholds if representatives}
    return Clusters(label, chosen)

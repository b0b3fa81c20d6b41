"""The share of characters that need no edit from one text to the other."""

from collections.abc import Sequence

import numpy as np

from rlvr_cli.evaluation.metrics.rapid import pairwise
from rlvr_cli.evaluation.metrics.ucc import Similarity


def build() -> Similarity:
    """1 - d(a, b) / max(|a|, |b|), d the Levenshtein distance, lengths in characters."""
    return edit


def edit(distinct: Sequence[str], where: np.ndarray) -> np.ndarray:
    """The normalised edit similarities [D, D] of distinct texts."""
    return pairwise("Levenshtein", list(distinct))

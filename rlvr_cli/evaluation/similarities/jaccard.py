"""The share of two texts' words and symbols that both have; neither order nor number counts."""

from collections.abc import Sequence

import numpy as np

from rlvr_cli.evaluation.metrics.products import products
from rlvr_cli.evaluation.metrics.tokens import tokenize
from rlvr_cli.evaluation.metrics.ucc import Similarity


def build() -> Similarity:
    """J(a, b) = |A & B| / |A | B|, A and B the sets of the texts' tokens."""
    return jaccard


def jaccard(distinct: Sequence[str], where: np.ndarray) -> np.ndarray:
    """The Jaccard similarities [D, D] of distinct texts; 0 for a text without tokens."""
    text_E, term_E, _ = tokenize(distinct).counts()
    size_D = np.bincount(text_E, minlength=len(distinct))
    both_DD = products(text_E, term_E, np.ones(len(text_E)), texts=len(distinct))
    jaccard_DD: np.ndarray = both_DD / np.maximum(size_D[:, None] + size_D - both_DD, 1)
    np.fill_diagonal(jaccard_DD, 1.0)
    return jaccard_DD

"""ROUGE-L: the longest common subsequence of two texts' words and symbols."""

from collections.abc import Sequence

import numpy as np

from rlvr_cli.evaluation.metrics.rapid import pairwise
from rlvr_cli.evaluation.metrics.tokens import tokenize
from rlvr_cli.evaluation.metrics.ucc import Similarity


def build() -> Similarity:
    """F1 = 2 LCS(a, b) / (|a| + |b|), lengths in tokens (Lin 2004, with beta 1)."""
    return rouge_l


def rouge_l(distinct: Sequence[str], where: np.ndarray) -> np.ndarray:
    """The ROUGE-L F1 [D, D] of distinct texts; 0 for a text without tokens.

    1 minus the normalised insertions and deletions from one to the other, which is the same.
    """
    terms = tokenize(distinct).of_text()
    f1_DD = pairwise("Indel", [term_N.tolist() for term_N in terms])
    empty_D = np.array([len(term_N) == 0 for term_N in terms])
    f1_DD[empty_D], f1_DD[:, empty_D] = 0.0, 0.0
    np.fill_diagonal(f1_DD, 1.0)
    return f1_DD

"""Distances between sequences, by rapidfuzz."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlvr_cli.errors import UsageError


def pairwise(distance: str, sequences: Sequence[Any]) -> np.ndarray:
    """The normalised similarities [D, D] of texts, or of lists of numbers, float64."""
    try:
        from rapidfuzz import distance as distances, process
    except ImportError as error:
        raise UsageError(
            "this similarity needs rapidfuzz, which is not installed",
            "pip install 'rlvr[similarity]'",
        ) from error
    scorer = getattr(distances, distance).normalized_similarity
    return process.cdist(sequences, sequences, scorer=scorer, dtype=np.float64)

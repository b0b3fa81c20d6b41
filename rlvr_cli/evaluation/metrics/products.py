"""Inner products of texts by the terms that they share.

Shapes: those of tokens.py, and Q pairs of texts with a term in common.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

DENSE_SHARE = 16  # a term of more than a 16th of the texts is dense
PAIRS = 2**20  # pairs of texts multiplied at once


def products(
    text_E: np.ndarray, term_E: np.ndarray, value_E: np.ndarray, *, texts: int
) -> np.ndarray:
    """The inner products [D, D] of texts with a value at each of their terms, term after term.

    Terms of many texts are multiplied as a dense matrix, of those of few each pair of texts by
    itself. The diagonal has no meaning.
    """
    df_V = np.bincount(term_E)
    many_V = df_V * DENSE_SHARE > max(texts, DENSE_SHARE)
    many_E, few_E = (
        np.flatnonzero(np.repeat(chosen_V, df_V)) for chosen_V in (many_V, ~many_V & (df_V > 1))
    )
    value_DV = np.zeros((texts, int(many_V.sum())))
    column_E = (np.cumsum(many_V) - 1).take(term_E.take(many_E))
    value_DV[text_E.take(many_E), column_E] = value_E.take(many_E)
    product_DD = value_DV @ value_DV.T
    few = text_E.take(few_E), term_E.take(few_E), value_E.take(few_E)
    for key_Q, product_Q in _pairs(*few, texts):
        upper_DD = np.bincount(key_Q, weights=product_Q, minlength=texts**2).reshape(texts, texts)
        product_DD += upper_DD
        product_DD += upper_DD.T
    return product_DD


def _pairs(
    text_E: np.ndarray, term_E: np.ndarray, value_E: np.ndarray, texts: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of each two entries of a term: row * D + column, and the product; [Q] of them at a time."""
    size_V = np.bincount(term_E)
    later_E = np.repeat(np.cumsum(size_V), size_V) - np.arange(1, len(term_E) + 1)
    most = max(PAIRS, texts**2 // 4)
    total_E = np.cumsum(later_E)
    cuts = np.searchsorted(total_E, np.arange(most, total_E.max(initial=0), most)).tolist()
    row_E = text_E * texts
    for start, end in pairwise([0, *cuts, len(term_E)]):
        block, later_B = np.arange(start, end), later_E[start:end]
        one_Q = np.repeat(block, later_B)
        skipped_B = np.cumsum(later_B) - later_B
        other_Q = np.arange(1, len(one_Q) + 1) + np.repeat(block - skipped_B, later_B)
        yield row_E.take(one_Q) + text_E.take(other_Q), value_E.take(one_Q) * value_E.take(other_Q)

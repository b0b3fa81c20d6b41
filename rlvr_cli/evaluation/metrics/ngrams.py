"""How much the completions of a prompt repeat one another, in n-grams of words and symbols.

Shapes: D completions, E pairs of a completion and an n-gram in it.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.metrics.tokens import Tokens, tokenize

SMOOTHING = 0.1  # Chen and Cherry 2014, method 1, as Texygen takes it from NLTK


def ngrams(tokens: Tokens, orders: int) -> Iterator[Tokens]:
    """The n-grams of each text as tokens, for n = 1 to `orders`."""
    grams = tokens
    yield grams
    for order in range(2, orders + 1):
        last_N = tokens.term_N[order - 1 :]
        fits_N = tokens.text_N[: len(last_N)] == tokens.text_N[order - 1 :]
        # The n-gram that starts at each token: the (n-1)-gram there and the token after it.
        at_N = np.full(len(tokens.term_N), -1, dtype=np.int64)
        before_N = np.flatnonzero(_starts(tokens, order - 1))
        at_N[before_N] = grams.term_N
        start_N = np.flatnonzero(fits_N)
        key_N = at_N[start_N] * tokens.terms + last_N[start_N]
        terms, term_N = np.unique(key_N, return_inverse=True)
        grams = Tokens(term_N, tokens.text_N[start_N], tokens.texts, len(terms))
        yield grams


def _starts(tokens: Tokens, order: int) -> np.ndarray:
    """Whether an n-gram of this order starts at each token."""
    starts_N = np.zeros(len(tokens.term_N), dtype=bool)
    ends_N = tokens.text_N[order - 1 :]
    starts_N[: len(ends_N)] = tokens.text_N[: len(ends_N)] == ends_N
    return starts_N


def self_bleu(texts: Sequence[str], *, orders: int = 4) -> float:
    """The mean over completions of BLEU against all others as references; 1 if all are equal.

        BLEU = min(1, e^(1 - r/c)) exp(1/m sum_{n=1}^m ln p_n)      (Papineni et al. 2002)

    p_n the clipped share of a completion's n-grams, c its length, r the nearest of the others',
    m the smaller of `orders` and c (sacrebleu's effective order): a completion of two words has no
    3-grams to miss. A p_n of 0 matches is 0.1 / n-grams; without any common word BLEU is 0
    (Self-BLEU: Zhu et al. 2018, arXiv:1802.01886). A completion without words has BLEU 1 where
    another has none, else 0. Case does not count. Raises DataError below two completions.
    """
    if len(texts) < 2:
        raise DataError(f"Self-BLEU of {len(texts)} completions", "it takes two of a prompt")
    tokens = tokenize(texts)
    length_D = tokens.lengths()
    log_precision_D, overlaps_D = np.zeros(len(texts)), np.ones(len(texts), dtype=bool)
    for order, grams in enumerate(ngrams(tokens, orders), 1):
        match_D = _clipped(grams)
        if order == 1:
            overlaps_D = match_D > 0
        total_D = np.maximum(length_D - order + 1, 1)
        log_D = np.log(np.where(match_D > 0, match_D, SMOOTHING) / total_D)
        log_precision_D += np.where(length_D >= order, log_D, 0.0)
    log_precision_D /= np.clip(length_D, 1, orders)
    brevity_D = np.minimum(0.0, 1 - _nearest(length_D) / np.maximum(length_D, 1))
    bleu_D = np.where(overlaps_D, np.exp(brevity_D + log_precision_D), 0.0)
    if (empty_D := length_D == 0).sum() > 1:
        bleu_D[empty_D] = 1.0
    return float(bleu_D.mean())


def _clipped(grams: Tokens) -> np.ndarray:
    """Each completion's n-grams, each at most as often as the other that has it most often, [D]."""
    text_E, term_E, count_E = grams.counts()
    order = np.lexsort((-count_E, term_E))
    text_E, term_E, count_E = text_E[order], term_E[order], count_E[order]
    first_T = np.flatnonzero(np.diff(term_E, prepend=-1))
    second_T = first_T + 1
    has_second_T = np.diff(first_T, append=len(term_E)) > 1
    most_T = count_E[first_T]
    next_T = np.where(has_second_T, count_E[np.minimum(second_T, len(count_E) - 1)], 0)
    which_E = np.cumsum(np.diff(term_E, prepend=-1) > 0) - 1
    is_first_E = np.zeros(len(term_E), dtype=bool)
    is_first_E[first_T] = True
    others_E = np.where(is_first_E, next_T[which_E], most_T[which_E])
    return np.bincount(text_E, weights=np.minimum(count_E, others_E), minlength=grams.texts)


def _nearest(length_D: np.ndarray) -> np.ndarray:
    """Of each length the nearest of the others; of two such the shorter."""
    gap_DD = np.abs(length_D[:, None] - length_D) + np.where(length_D > length_D[:, None], 0.5, 0)
    np.fill_diagonal(gap_DD, np.inf)
    nearest_D: np.ndarray = length_D[gap_DD.argmin(axis=1)]
    return nearest_D


def distinct(texts: Sequence[str], *, orders: int = 3) -> list[float]:
    """distinct-n for n = 1 to `orders`: different n-grams / n-grams, of all completions together.

    (Li et al. 2016, arXiv:1510.03055.) A completion of fewer than n tokens is one n-gram, itself:
    eight times `7` give 1/8 for every n, and eight different numbers give 1.
    """
    tokens = tokenize(texts)
    sequences, shares = [tuple(term_N.tolist()) for term_N in tokens.of_text()], []
    for order, grams in enumerate(ngrams(tokens, orders), 1):
        short = [sequence for sequence in sequences if len(sequence) < order]
        shares.append((grams.terms + len(set(short))) / (len(grams.term_N) + len(short)))
    return shares

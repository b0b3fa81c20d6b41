"""Majority votes over the extracted answers of a prompt's completions, and their entropy.

Classes of answers: all correct completions are one, wrong ones with equal extracted answers are
one, and completions without an answer are silent. Shapes: K values of k, V votes, R ties.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.metrics.passk import require_k

# A term below this share of the total changes no digit of it.
NOTHING = 1e-18


def maj_at_k(c: int, wrong: Sequence[int], silent: int, ks: Sequence[int]) -> np.ndarray:
    """The probability [K] that the most frequent answer of k of the n completions is correct.

        maj@k = sum_t P(t of the k are correct) E[1 / (1 + R); every wrong class has at most t],
        R the number of wrong classes with exactly t

    over draws without replacement, exactly: the counts of the classes are independent binomials
    with probability k / n, given that they sum to k. `c` completions are correct, `wrong` has the
    sizes of the wrong classes, `silent` ones do not vote. Of tied answers one is taken at random;
    k completions without an answer have no majority. Raises DataError where n < k.
    """
    n = c + sum(wrong) + silent
    require_k(ks, n, metric="maj")
    if min(c, silent, *wrong, 0) < 0:
        raise DataError(f"classes of {c}, {list(wrong)} and {silent} completions are not sizes")
    return np.array([_maj(c, Counter(wrong), silent, n, int(k)) for k in ks])


def _maj(c: int, wrong: Counter[int], silent: int, n: int, k: int) -> float:
    if k == n:
        most = max(wrong, default=0)
        return float(c > most) if c != most or c == 0 else 1.0 / (1 + wrong[most])
    chance_t, chance_k = _binomial(c, k / n), _binomial(n, k / n)[k]
    won = sum(
        chance_t[t] * _not_beaten(wrong, silent, t, votes=k - t, p=k / n)
        for t in range(1, min(c, k) + 1)
        if chance_t[t] > NOTHING * chance_k
    )
    return float(min(won / chance_k, 1.0))


def _not_beaten(wrong: Counter[int], silent: int, t: int, *, votes: int, p: float) -> float:
    """E[1 / (1 + R); no wrong class has more than t, and all together have `votes`].

    chance_RV[r, v]: r of the classes so far have exactly t, and they have v votes together. The
    classes too small for t and the silent completions are one unbounded binomial.
    """
    large = [(size, count) for size, count in wrong.items() if size >= t]
    small = silent + sum(size * count for size, count in wrong.items() if size < t)
    ties = min(sum(count for _, count in large), votes // t)
    chance_RV = np.zeros((ties + 1, votes + 1))
    start = _binomial(small, p)[: votes + 1]
    chance_RV[0, : len(start)] = start
    for size, count in large:
        chance_t = _binomial(size, p)
        for _ in range(count):
            before_RV, chance_RV = chance_RV, chance_t[0] * chance_RV
            for u in range(1, min(t, votes + 1)):
                chance_RV[:, u:] += chance_t[u] * before_RV[:, : votes + 1 - u]
            if t <= votes:
                chance_RV[1:, t:] += chance_t[t] * before_RV[:-1, : votes + 1 - t]
    return float((chance_RV[:, votes] / np.arange(1, ties + 2)).sum())


def _binomial(n: int, p: float) -> np.ndarray:
    """The probabilities [n + 1] of 0 to n of n; p is above 0 and below 1."""
    from scipy.special import gammaln

    u = np.arange(n + 1)
    log_ways = gammaln(n + 1) - gammaln(u + 1) - gammaln(n - u + 1)
    chance_u: np.ndarray = np.exp(log_ways + u * np.log(p) + (n - u) * np.log1p(-p))
    return chance_u


def entropy(c: int, wrong: Sequence[int], silent: int) -> float:
    """The entropy in nats of the classes of answers; completions without one are a class too.

    H = -sum_j p_j ln p_j, p_j the share of class j among the n completions
    """
    size_J = np.array([size for size in (c, *wrong, silent) if size > 0], dtype=np.float64)
    if not size_J.size:
        raise DataError("a prompt has no completions", hint="finish its rollouts, or drop it")
    share_J = size_J / size_J.sum()
    return float(-(share_J * np.log(share_J)).sum()) + 0.0

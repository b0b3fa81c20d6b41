"""Pass@k and Avg@k of prompts with n completions, c of them correct.

Shapes: P prompts, K values of k, U distinct (n, c) pairs.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from rlvr_cli.errors import DataError, UsageError


def pass_at_k(n: int, c: int, ks: Sequence[int]) -> np.ndarray:
    """The probability [K] that k of the n completions, drawn at once, hold a correct one.

        pass@k = 1 - C(n-c, k) / C(n, k) = 1 - prod_{i=0}^{k-1} (1 - c / (n - i))
                                                (arXiv:2107.03374, eq. 1)

    Exact to 1e-12 relative for n up to 65,536: the product is a sum of log1p, so small
    probabilities keep their digits and nothing overflows. Raises DataError where n < k.
    """
    k_K = require_k(ks, n, metric="pass")
    if not 0 <= c <= n:
        raise DataError(
            f"a prompt has {c} correct completions of {n}",
            hint="check that scores and rollouts belong together",
        )
    if k_K.size == 0:
        return np.zeros(0)
    unique_k, where_K = np.unique(k_K, return_inverse=True)
    with np.errstate(divide="ignore"):
        log_factor = np.log1p(-np.minimum(c / (n - np.arange(unique_k[-1])), 1.0))
    # Pairwise sums between one k and the next: a running sum would lose digits at large k.
    log_miss = np.cumsum(np.add.reduceat(log_factor, np.r_[0, unique_k[:-1]]))
    return -np.expm1(log_miss)[where_K]


def pass_at_k_table(n_P: ArrayLike, c_P: ArrayLike, ks: Sequence[int]) -> np.ndarray:
    """`pass_at_k` of every prompt, [P, K]; each distinct (n, c) is computed once."""
    n_P, c_P = np.asarray(n_P, dtype=np.int64), np.asarray(c_P, dtype=np.int64)
    if n_P.shape != c_P.shape:
        raise DataError(f"{n_P.size} prompts have completions, {c_P.size} have correct counts")
    if n_P.size == 0:
        return np.zeros((0, len(ks)))
    require_k(ks, int(n_P.min()), metric="pass")
    base = int(max(n_P.max(), c_P.max())) + 1
    pair_U, where_P = np.unique(n_P * base + c_P, return_inverse=True)
    table_UK = np.stack([pass_at_k(*divmod(int(pair), base), ks) for pair in pair_U])
    return table_UK[where_P.reshape(-1)]


def avg_at_k(n_P: ArrayLike, c_P: ArrayLike) -> np.ndarray:
    """The share of correct completions, c / n with k = n; DataError for a prompt with none."""
    n_P = np.asarray(n_P)
    if np.any(n_P < 1):
        raise DataError("a prompt has no completions", hint="finish its rollouts, or drop it")
    return np.asarray(c_P) / n_P


def require_k(ks: Sequence[int], smallest_n: int, *, metric: str) -> np.ndarray:
    """The ks [K] as integers; an error if one is below 1 or above the smallest n."""
    k_K = np.asarray(ks, dtype=np.int64)
    if np.any(k_K < 1):
        raise UsageError(f"`{metric}@{k_K.min()}` has no meaning", hint="use `--k` of 1 or more")
    if np.any(k_K > smallest_n):
        raise DataError(
            f"`{metric}@{k_K.max()}` needs {k_K.max()} completions of every prompt, "
            f"but the smallest number is {smallest_n}",
            hint=f"use `--k` up to {smallest_n}" if smallest_n else "finish the rollouts",
        )
    return k_K

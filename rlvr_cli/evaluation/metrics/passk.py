"""Pass@k and Avg@k of prompts with n completions, c of them correct.

Shapes: P prompts, K values of k, U distinct numbers c of one n.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from rlvr_cli.errors import DataError, UsageError

MANY = 2**20  # factors computed at once


def pass_at_k(n: int, c: int, ks: Sequence[int]) -> np.ndarray:
    """The probability [K] that k of the n completions, drawn at once, hold a correct one.

        pass@k = 1 - C(n-c, k) / C(n, k) = 1 - prod_{i=0}^{k-1} (1 - c / (n - i))
                                                (arXiv:2107.03374, eq. 1)

    Exact to 1e-12 relative for n up to 65,536: the product is a sum of log1p, so small
    probabilities keep their digits and nothing overflows. Raises DataError where n < k.
    """
    k_K = require_k(ks, n, metric="pass")
    if not 0 <= c <= n:
        raise _unlike(n, c)
    chance_K: np.ndarray = _table(n, np.array([c]), k_K)[0]
    return chance_K


def _table(n: int, c_U: np.ndarray, k_K: np.ndarray) -> np.ndarray:
    """`pass_at_k` of n completions with c_u correct, [U, K]."""
    if k_K.size == 0:
        return np.zeros((len(c_U), 0))
    unique_k, where_K = np.unique(k_K, return_inverse=True)
    with np.errstate(divide="ignore"):
        log_factor = np.log1p(-np.minimum(c_U[:, None] / (n - np.arange(unique_k[-1])), 1.0))
    # Pairwise sums between one k and the next: a running sum would lose digits at large k.
    log_miss = np.cumsum(np.add.reduceat(log_factor, np.r_[0, unique_k[:-1]], axis=1), axis=1)
    chance_UK: np.ndarray = -np.expm1(log_miss)[:, where_K]
    return chance_UK


def pass_at_k_table(n_P: ArrayLike, c_P: ArrayLike, ks: Sequence[int]) -> np.ndarray:
    """`pass_at_k` of every prompt, [P, K]; each distinct (n, c) is computed once."""
    n_P, c_P = np.asarray(n_P, dtype=np.int64), np.asarray(c_P, dtype=np.int64)
    if n_P.shape != c_P.shape:
        raise DataError(f"{n_P.size} prompts have completions, {c_P.size} have correct counts")
    if n_P.size == 0:
        return np.zeros((0, len(ks)))
    k_K = require_k(ks, int(n_P.min()), metric="pass")
    if np.any(wrong_P := (c_P < 0) | (c_P > n_P)):
        raise _unlike(int(n_P[wrong_P][0]), int(c_P[wrong_P][0]))
    table_PK = np.empty((n_P.size, len(ks)))
    for n in np.unique(n_P).tolist():
        at_P = n_P == n
        c_U, where_P = np.unique(c_P[at_P], return_inverse=True)
        block = max(1, MANY // n)
        parts = [_table(n, c_U[at : at + block], k_K) for at in range(0, len(c_U), block)]
        table_PK[at_P] = np.concatenate(parts)[where_P]
    return table_PK


def _unlike(n: int, c: int) -> DataError:
    return DataError(
        f"a prompt has {c} correct completions of {n}",
        hint="check that scores and rollouts belong together",
    )


def avg_at_k(n_P: ArrayLike, c_P: ArrayLike) -> np.ndarray:
    """The share of correct completions, c / n with k = n; DataError for a prompt without any."""
    n_P = np.asarray(n_P)
    if np.any(n_P < 1):
        raise DataError("a prompt has no completions", hint="finish its rollouts, or drop it")
    share_P: np.ndarray = np.asarray(c_P) / n_P
    return share_P


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

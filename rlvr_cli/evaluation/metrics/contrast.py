"""What two policies solve differently: flips by difficulty, and where their Pass@k curves cross.

Shapes: P prompts, K values of k.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from rlvr_cli.evaluation.metrics.passk import pass_at_k_table

# The upper ends of the buckets as shares of n; of 256: 0, 8, 32, 128 and 256 (QUATRO, C.7).
BUCKETS = (0.0, 1 / 32, 1 / 8, 1 / 2, 1.0)


@dataclass(frozen=True)
class FlipBucket:
    """The prompts whose success rate under the first policy is above `above` and at most `upto`.

    `gained` had no correct completion and have one now, `lost` the other way round; `change` is
    the mean change of c / n, NaN without prompts.
    """

    above: float
    upto: float
    prompts: int
    gained: int
    lost: int
    change: float


def flips(first_n: ArrayLike, first_c: ArrayLike, n: ArrayLike, c: ArrayLike) -> list[FlipBucket]:
    """Flips by the difficulty of each prompt [P] for the first policy, hardest bucket first.

        flip rate = gained / prompts                 (QUATRO, C.7)

    Only the first bucket has prompts without a correct completion, so in the others the rate is
    0 by definition, and `lost` is the informative count.
    """
    n1, c1, n2, c2 = (np.asarray(values) for values in (first_n, first_c, n, c))
    share_P, change_P = c1 / n1, c2 / n2 - c1 / n1
    buckets = []
    for above, upto in zip((-1.0, *BUCKETS[:-1]), BUCKETS, strict=True):
        here_P = (share_P > above) & (share_P <= upto)
        prompts = int(here_P.sum())
        gained, lost = (here_P & (c1 == 0) & (c2 > 0)), (here_P & (c1 > 0) & (c2 == 0))
        change = float(change_P[here_P].mean()) if prompts else float("nan")
        buckets.append(FlipBucket(above, upto, prompts, int(gained.sum()), int(lost.sum()), change))
    return buckets


def crossings(first_PK: np.ndarray, second_PK: np.ndarray) -> list[int]:
    """The k at which the mean Pass@k [P, K] of k = 1 to K changes its order; equal k are passed."""
    gap_K = (second_PK - first_PK).mean(axis=0)
    sign_K = np.where(np.abs(gap_K) < 1e-12, 0, np.sign(gap_K))
    ahead = np.flatnonzero(sign_K)
    return [int(k) + 1 for last, k in pairwise(ahead) if sign_K[last] != sign_K[k]]


def curve(n: ArrayLike, c: ArrayLike, largest: int) -> np.ndarray:
    """Pass@k of every prompt for k = 1 to `largest`, [P, K]."""
    return pass_at_k_table(n, c, range(1, largest + 1))


def frontier(points: ArrayLike) -> list[bool]:
    """Whether no other point [R, 2] is at least as high in both and higher in one."""
    at = np.asarray(points, dtype=np.float64)
    return [not ((at >= own).all(axis=1) & (at > own).any(axis=1)).any() for own in at]

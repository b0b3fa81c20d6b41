"""GMPO: the geometric mean of ratios clipped one-sidedly (arXiv:2507.20673).

Elsewhere: verl (`geo_mean`), TRL (experimental).
Use: Outlying token ratios make training unstable.
"""

import math

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, ratio as ratios, surrogate, weight


def build(*, clip: float = 0.4, eps: float = 1e-6, ddof: advantage.Ddof = 1) -> Objective:
    """The mean over completions of A times the geometric mean of clipped ratios.

        L = -1/N sum_i A_i exp(mean_t d'_it)
        d' = min(d, clip) if A > 0, max(d, -clip) if A < 0

    `clip` is in nats. A_i = (R_i - mean R) / (std R + eps).
    """
    if not 0 <= clip < math.inf:
        raise ValueError("clip must be at 0 or above, and finite")
    return Objective(
        advantage=advantage.normed(eps=eps, ddof=ddof),
        log_ratio=lambda batch: ratios.token(batch.logp_BT, batch.old_logp_BT, batch.mask_BT),
        surrogate=lambda batch, log_ratio_BT: surrogate.geometric(
            log_ratio_BT, batch.advantage_BT, batch.mask_BT, clip=clip
        ),
        weight=weight.seq_mean_token_mean,
        ratio="sequence",
        clip=(-math.expm1(-clip), math.expm1(clip)),
    )

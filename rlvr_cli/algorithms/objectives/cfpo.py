"""CFPO: a square of the token ratio's distance from 1 instead of a clip (arXiv:2601.22801).

Elsewhere: its authors' pull requests to verl, TRL and OpenRLHF.
Use: Several updates per batch, if tokens beyond a clip should be brought back, not only left.
"""

import math

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, ratio as ratios, surrogate, weight


def build(
    *,
    width: float = 0.2,
    aggregation: weight.Aggregation = "seq-mean-token-mean",
    eps: float = 1e-6,
    ddof: advantage.Ddof = 1,
) -> Objective:
    """Each completion's mean of r A - |A| (r - 1)^2 / (2 width), then the mean over completions.

        L = -1/N sum_i 1/|o_i| sum_t (r_it A_i - |A_i| (r_it - 1)^2 / (2 width))
        A_i = (R_i - mean R) / (std R + eps)

    The gradient is A r (1 - |r - 1| / width) grad log pi where A pushes away from 1, and A r (1 +
    |r - 1| / width) grad log pi where it pulls back: a token comes to rest where PPO would clip it,
    at r = 1 + width or 1 - width, and is brought back from beyond. The square is that of SPO
    (arXiv:2401.16025). `width` is the clip of GRPO.
    """
    if not 0 < width < math.inf:
        raise ValueError("width must be above 0, and finite")
    return Objective(
        advantage=advantage.normed(eps=eps, ddof=ddof),
        log_ratio=lambda batch: ratios.token(batch.logp_BT, batch.old_logp_BT, batch.mask_BT),
        surrogate=lambda batch, log_ratio_BT: surrogate.parabolic(
            log_ratio_BT, batch.advantage_BT, width=width
        ),
        weight=weight.BY_NAME[aggregation],
    )

"""CE-GPPO: clipped tokens keep a gradient, scaled on each side (arXiv:2509.20712).

Elsewhere: its authors' code on verl.
Use: Several updates per batch, if many tokens are clipped and entropy falls or explodes: beta1
    below 1 keeps entropy, beta2 explores.
"""

import math
from dataclasses import replace

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, surrogate, token_clip, weight


def build(
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    beta1: float = 0.75,
    beta2: float = 1.0,
    eps: float = 1e-6,
    ddof: advantage.Ddof = 1,
) -> Objective:
    """The mean over all tokens of r A, with a ratio that is bounded and keeps its gradient.

        L = -1/T sum_i sum_t g_it A_i,  A_i = (R_i - mean R) / (std R + eps)
        g = beta1 (1 - clip_low) r / sg(r)     where A < 0 and r < 1 - clip_low
            beta2 (1 + clip_high) r / sg(r)   where A > 0 and r > 1 + clip_high
            r                                     elsewhere

    With beta1 and beta2 at 0 the gradient is that of a clip; with both at 1 this is GPPO
    (arXiv:2508.07629).
    """
    if not (0 <= beta1 < math.inf and 0 <= beta2 < math.inf):
        raise ValueError("beta1 and beta2 must be at 0 or above, and finite")
    base = token_clip.objective(
        advantage.normed(eps=eps, ddof=ddof),
        weight.token_mean,
        low=clip_low,
        high=clip_high,
    )
    return replace(
        base,
        surrogate=lambda batch, log_ratio_BT: surrogate.preserving(
            log_ratio_BT,
            batch.advantage_BT,
            low=clip_low,
            high=clip_high,
            beta1=beta1,
            beta2=beta2,
        ),
        preserves_clipped=True,
    )

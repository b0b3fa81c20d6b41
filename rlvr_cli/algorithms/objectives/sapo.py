"""SAPO: a smooth gate on the token ratio instead of a clip (arXiv:2511.20347, eq. 5 and 6).

Elsewhere: verl, TRL, ms-swift, SkyRL, AReaL, torchtitan.
Use: Several updates per batch, if the edge of a clip drops too many tokens; mixtures of experts.
"""

import math

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, ratio as ratios, surrogate, weight


def build(
    *, tau_pos: float = 1.0, tau_neg: float = 1.05, eps: float = 1e-6, ddof: advantage.Ddof = 1
) -> Objective:
    """Each completion's mean of A f(r), then the mean over completions.

        L = -1/N sum_i 1/|o_i| sum_t A_i 4 / tau sigmoid(tau (r_it - 1))
        tau = tau_pos if A_i > 0 else tau_neg,  A_i = (R_i - mean R) / (std R + eps)

    A larger tau takes gradient away from a token the sooner its ratio leaves 1.
    """
    if not (0 < tau_pos < math.inf and 0 < tau_neg < math.inf):
        raise ValueError("tau_pos and tau_neg must be above 0, and finite")
    return Objective(
        advantage=advantage.normed(eps=eps, ddof=ddof),
        log_ratio=lambda batch: ratios.token(batch.logp_BT, batch.old_logp_BT, batch.mask_BT),
        surrogate=lambda batch, log_ratio_BT: surrogate.soft_gate(
            log_ratio_BT, batch.advantage_BT, tau_pos=tau_pos, tau_neg=tau_neg
        ),
        weight=weight.seq_mean_token_mean,
    )

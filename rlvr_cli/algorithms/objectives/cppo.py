"""CPPO: a trust region that narrows as the prefix drifts (arXiv:2606.10968, eq. 8 to 11).

Elsewhere: its authors' code in UniRL and on verl.
Use: Instead of `dppo-tv`, if completions are long: it also holds tokens that follow a drifted
    prefix, and late ones less than early ones; with `--old-logprobs rollout`.
"""

import math

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, divergence, weight


def build(
    *,
    delta: float = 0.15,
    delta_b: float = 0.02,
    growth: float = 2.0,
    w_min: float = 0.8,
    aggregation: weight.Aggregation = "constant",
    eps: float = 1e-6,
    ddof: advantage.Ddof = 1,
) -> Objective:
    """The sum over tokens of M r A over a constant length, then the mean over completions.

        L = -1/N sum_i 1/L_max sum_t M_it r_it A_i,  A_i = (R_i - mean R) / (std R + eps)
        M = 0 where A (r - 1) > 0 and w_t D_t > min(delta, delta + delta_b W_t - S_t); else 1
        D_t = |pi(y_it) - pi_old(y_it)|,  w_t falls linearly from 1 to w_min
        W_t = sum_{s < t} w_s,  S_t = sum_{s < t} w_s D_s

    delta_b is what the weighted mean of a prefix may be: the 90th percentile of the completion's D,
    at least `delta_b` and at most `growth` times that (eq. 22). The paper has this for base models,
    and delta = 0.2 for a mixture of experts; its post-trained model has a fixed 0.015, which is
    `delta_b=0.015,growth=1`. Its main runs measure D over the 20 likeliest tokens, and this D in
    Fig. 6. L_max is the rollout's --max-new-tokens. pi_old is the policy that sampled in the paper:
    `--old-logprobs rollout`.
    """
    if not (0 <= delta < math.inf and 0 <= delta_b < math.inf):
        raise ValueError("delta and delta_b must be at 0 or above, and finite")
    if not 1 <= growth < math.inf:
        raise ValueError("growth must be at least 1, and finite")
    if not 0 < w_min <= 1:
        raise ValueError("w_min must be above 0 and at most 1")
    return divergence.masked_by_prefix(
        advantage.normed(eps=eps, ddof=ddof),
        weight.BY_NAME[aggregation],
        divergence.total_variation,
        delta=delta,
        least=delta_b,
        most=growth * delta_b,
        w_min=w_min,
    )

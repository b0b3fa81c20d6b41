"""VESPO: a smooth kernel of the whole completion's ratio (arXiv:2602.10693, eq. 20).

Elsewhere: TRL, its authors' code on verl.
Use: Samples of a policy many updates old, as with `--async`; with `--old-logprobs rollout`.
"""

import math

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, ratio as ratios, surrogate, weight


def build(
    *,
    k_pos: float = 2.0,
    lambda_pos: float = 3.0,
    k_neg: float = 3.0,
    lambda_neg: float = 2.0,
    eps: float = 1e-6,
    ddof: advantage.Ddof = 1,
) -> Objective:
    """The mean over all tokens of sg(phi(W)) A log pi, W the ratio of the whole completion.

        L = -1/T sum_i sum_t sg(phi(W_i)) A_i log pi(y_it)
        phi(W) = W^k exp(lambda (1 - W)),  W_i = exp(sum_t d_it)
        k and lambda by the sign of A_i = (R_i - mean R) / (std R + eps)

    W sums every token's rounding and drift: far from 1 a completion has no gradient. In the paper
    it is the ratio to the policy that sampled: `--old-logprobs rollout`.
    """
    if not all(0 <= value < math.inf for value in (k_pos, lambda_pos, k_neg, lambda_neg)):
        raise ValueError("each k and lambda must be at 0 or above, and finite")

    return Objective(
        advantage=advantage.normed(eps=eps, ddof=ddof),
        log_ratio=lambda batch: ratios.sequence(batch.logp_BT, batch.old_logp_BT, batch.mask_BT),
        surrogate=lambda batch, log_ratio_BT: surrogate.reshaped(
            log_ratio_BT,
            batch.logp_BT,
            batch.advantage_BT,
            pos=(k_pos, lambda_pos),
            neg=(k_neg, lambda_neg),
        ),
        weight=weight.token_mean,
        ratio="sequence",
    )

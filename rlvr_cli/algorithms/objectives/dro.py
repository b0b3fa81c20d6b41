"""DRO: the log-prob's gain less a square of the log ratio (arXiv:2405.19107; arXiv:2501.12599).

Elsewhere: verl and Tinker (of tokens), ROLL (of tokens, as `kimi15`).
Use: Off-policy samples, if a clip should give way to a pull back to the old policy.
"""

import math
from typing import Literal

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, ratio as ratios, surrogate, weight


def build(*, beta: float = 0.1, ratio: Literal["token", "sequence"] = "token") -> Objective:
    """The mean over all tokens of A log pi - beta / 2 d^2.

        L = -1/T sum_i (sum_t A_i log pi(y_it) - beta / 2 sum_t d_it^2)
        A_i = R_i - mean R

    The gradient is (A - beta d) grad log pi: a token comes to rest at d = A / beta nats.

    The papers, DRO and Kimi k1.5 (eq. 3), have one square per completion, (sum_t d_it)^2,
    which is `ratio=sequence`: the completion comes to rest at A / beta, and a token goes on as long
    as the others make up for it. With the token's square, that of other libraries, a completion
    may move |o| times as far. `beta` is 0.1 in ROLL, 0.05 in Tinker's example.
    """
    if not 0 < beta < math.inf:
        raise ValueError("beta must be above 0, and finite; gpg has no square")
    span = ratios.BY_NAME[ratio]
    return Objective(
        advantage=lambda step: {"advantage": advantage.group_mean(step.reward_N, step.group_N)},
        log_ratio=lambda batch: span(batch.logp_BT, batch.old_logp_BT, batch.mask_BT),
        surrogate=lambda batch, log_ratio_BT: surrogate.quadratic(
            ratios.token(batch.logp_BT, batch.old_logp_BT, batch.mask_BT),
            log_ratio_BT,
            batch.logp_BT,
            batch.advantage_BT,
            beta=beta,
        ),
        weight=weight.token_mean,
        ratio=ratio,
    )

"""QUATRO: the exact trust region of each prompt, without clipping (arXiv:2602.04620).

Elsewhere: none found.
Use: Many updates per batch, or high learning rates; short completions, because its ratio covers all
    tokens.
"""

import math
from typing import Literal

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import dual, ratio as ratios, surrogate, weight

EARLIER = {"clamp": True}


def build(
    *,
    delta: float = 0.1,
    ratio: Literal["sequence", "length-normalized"] = "sequence",
    max_gap: float = 20.0,
    log_ratio: bool = True,
    detach: bool = True,
    clamp: bool = True,
) -> Objective:
    """The mean over completions of rho (A - sg(log rho)).

        L = -1/N sum_i rho_i (A_i - sg(log rho_i))                       (eq. 14)
        A_i = R_i / lam - log mean_j exp(R_j / lam),  KL(softmax(R / lam) || uniform) = delta

    `max_gap` bounds (R_max - R_min) / lam where no such lam exists (eq. 15). `log_ratio=false`
    leaves log rho out, `detach=false` lets it carry gradient (eq. 35). A completion whose log rho
    is beyond 20 nats has no gradient; `clamp=false` keeps it, with rho in it held at e^20.
    """
    if not (0 < delta < math.inf and 0 < max_gap < math.inf):
        raise ValueError("delta and max_gap must be above 0 and finite")
    span = ratios.BY_NAME[ratio]
    return Objective(
        advantage=lambda step: dual.trust_region(
            step.reward_N, step.group_N, delta=delta, max_gap=max_gap
        ),
        log_ratio=lambda batch: span(batch.logp_BT, batch.old_logp_BT, batch.mask_BT),
        surrogate=lambda batch, log_ratio_BT: surrogate.trust_region(
            log_ratio_BT,
            batch.advantage_BT,
            log_ratio=log_ratio,
            detach=detach,
            clamp=clamp,
        ),
        weight=weight.seq_mean_token_mean,
        columns=dual.COLUMNS,
        ratio="sequence",
    )

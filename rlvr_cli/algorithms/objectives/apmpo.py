"""APMPO: a power mean of ratios, exponent and clip by reward statistics (arXiv:2605.04066).

Elsewhere: none found.
Use: Two or more updates per batch; with one it equals GRPO, whatever its options.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from rlvr_cli.algorithms.objective import Objective, Step, TokenBatch
from rlvr_cli.algorithms.terms import (
    adaptive,
    advantage,
    penalty,
    ratio as ratios,
    surrogate,
    weight,
)
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor


def build(
    *,
    gamma: float = 0.8,
    clip_low: float = 0.2,
    e_min: float = 0.2,
    e_max: float = 0.4,
    exponent: adaptive.Exponent = "exponential",
    fss: adaptive.Stability = "full",
    bounds: Literal["upper", "both"] = "upper",
    tanh: bool = True,
    stats: Literal["batch", "group"] = "batch",
    kl: float = 0.001,
    eps: float = 1e-6,
    ddof: advantage.Ddof = 0,
) -> Objective:
    """The mean over completions of A (mean_t u_t^p)^(1/p), minus kl k3.

        u = min(r, 1 + e_ada) if A > 0, max(r, 1 - clip_low) if A < 0       (eq. 7 to 10)
        p = exp(-gamma mu),  e_ada = e_min + (e_max - e_min) tanh(mu / (sigma + 1e-6))

    mu and sigma are of the rewards of the rollout batch or of the group (`stats`). The ablations:
    `exponent=linear` (eq. 11), `fss` of one part (K.3), `bounds=both` adapts the lower bound too
    (eq. 81), `tanh=false` is Algorithm 1's line 18. A_i = (R_i - mean R) / (std R + eps).
    """

    if not (math.isfinite(gamma) and 0 <= clip_low <= 1 and 0 <= e_min <= e_max < math.inf):
        raise ValueError(
            "gamma must be finite, clip_low from 0 to 1, e_min at 0 or above, e_max at e_min or "
            "above, and finite"
        )
    normed = advantage.normed(eps=eps, ddof=ddof)

    def estimate(step: Step) -> dict[str, Tensor]:
        mean_N, std_N = adaptive.statistics(step.reward_N, step.group_N, over=stats)
        bound_N = adaptive.clip_bound(mean_N, std_N, low=e_min, high=e_max, score=fss, squash=tanh)
        return normed(step) | {
            "power": adaptive.power(mean_N, gamma=gamma, form=exponent),
            "clip_low": bound_N if bounds == "both" else torch.full_like(bound_N, clip_low),
            "clip_high": bound_N,
        }

    def gain(batch: TokenBatch, log_ratio_BT: Tensor) -> Tensor:
        columns = {name: value_B[:, None] for name, value_B in batch.columns.items()}
        return surrogate.power_mean(
            log_ratio_BT,
            batch.advantage_BT,
            batch.mask_BT,
            power_B1=columns["power"],
            low_B1=columns["clip_low"],
            high_B1=columns["clip_high"],
        )

    base = Objective(
        advantage=estimate,
        log_ratio=lambda batch: ratios.token(batch.logp_BT, batch.old_logp_BT, batch.mask_BT),
        surrogate=gain,
        weight=weight.seq_mean_token_mean,
        columns=("power", "clip_low", "clip_high"),
        ratio="sequence",
        clip=("clip_low", "clip_high"),
    )
    return penalty.with_kl(base, beta=kl, estimator="k3")

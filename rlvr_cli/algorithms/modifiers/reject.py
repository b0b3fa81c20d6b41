"""Drops tokens or completions by the gap between sampler and trainer (geometric mask, k2, k3).

Elsewhere: verl (rollout correction), TRL (`sequence_mask`).
Use: An engine or a policy whose samples are far from the trainer's: drops them instead of weighting
    them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import Modifier, Objective, TokenBatch
from rlvr_cli.algorithms.terms import correction
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor


def build(
    *,
    by: correction.Estimator = "k3",
    over: correction.Span = "mean",
    above: float = 0.01,
    below: float = 0.0,
) -> Modifier:
    """The gain times 0 where a gap of pi_old to pi_behaviour is out of bounds, else times 1.

        k1  log w_t, from -below to above; w_t = pi_old(y_t) / pi_behaviour(y_t)
        k2  (log w_t)^2 / 2, at most above
        k3  w_t - 1 - log w_t, at most above

    A `below` of 0 is `above`. Bounds are in nats. `over=token` drops tokens; otherwise a completion
    is dropped, by the mean of its tokens, the sum, or any token (max). `by=k1,over=mean` bounds the
    geometric mean of w_t. Counts and penalties stay as they are; `is-correction` added to it weighs
    what is left.
    """
    if not 0 < above < math.inf:
        raise ValueError("above must be above 0, and finite")
    if not 0 <= below < math.inf:
        raise ValueError("below must be at 0 or above, and finite")
    if below and by != "k1":
        raise ValueError(f"{by} is never below 0: below is for k1")

    def outside(batch: TokenBatch) -> Tensor:
        assert batch.behaviour_logp_BT is not None, "declared in needs"
        drift_BT = correction.drift(batch.old_logp_BT, batch.behaviour_logp_BT, batch.mask_BT)
        gap_BT = correction.gap(drift_BT, by=by)
        return correction.outside(
            gap_BT, batch.mask_BT, over=over, below=below or above, above=above
        )

    def dropped(batch: TokenBatch, _: Tensor) -> tuple[Tensor, Tensor]:
        return outside(batch), torch.ones_like(batch.mask_BT)

    def modify(objective: Objective) -> Objective:
        return replace(
            objective,
            needs=objective.needs | {"behaviour_logp"},
            factors=(*objective.factors, lambda batch: ~outside(batch)),
            shares=(*objective.shares, ("rejected", dropped)),
        )

    return modify

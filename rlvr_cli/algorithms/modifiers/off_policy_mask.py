"""Drops errors that the policy has moved away from (DeepSeek-V3.2, arXiv:2512.02556, eq. 9).

Elsewhere: TRL (`off_policy_mask_threshold`).
Use: Several updates per batch, or samples of an older policy, as with `--async`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from rlvr_cli.algorithms.objective import Modifier, Objective, TokenBatch
from rlvr_cli.algorithms.terms import ratio

if TYPE_CHECKING:
    from torch import Tensor


def build(*, delta: float = 0.1, against: Literal["behaviour", "old"] = "behaviour") -> Modifier:
    """The gain times 0 where A < 0 and mean_t log(pi_behaviour(y_t) / pi_theta(y_t)) > delta.

    The mean is of a completion, in nats, by the policy as it is at this update. `against=old`
    takes pi_old in place of pi_behaviour, and needs no log-probs of the sampler. Counts and
    penalties stay as they are. Of the tokens with A < 0, the share that is dropped is a metric.
    """
    if not 0 < delta < math.inf:
        raise ValueError("delta must be above 0 nats, and finite")

    def left_behind(batch: TokenBatch) -> Tensor:
        before_BT = batch.behaviour_logp_BT if against == "behaviour" else batch.old_logp_BT
        assert before_BT is not None, "declared in needs"
        logp_BT = batch.logp_BT.detach()
        return ratio.length_normalized(before_BT, logp_BT, batch.mask_BT) > delta

    def negative(batch: TokenBatch) -> Tensor:
        return (batch.advantage_BT < 0).expand_as(batch.mask_BT)

    def modify(objective: Objective) -> Objective:
        needs = {"behaviour_logp"} if against == "behaviour" else set()
        return replace(
            objective,
            needs=objective.needs | needs,
            factors=(
                *objective.factors,
                lambda batch: ~(left_behind(batch) & negative(batch)),
            ),
            shares=(
                *objective.shares,
                ("off_policy_masked", lambda batch, _: (left_behind(batch), negative(batch))),
            ),
        )

    return modify

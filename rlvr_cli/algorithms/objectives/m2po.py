"""M2PO: no clip, but the tokens that moved farthest are dropped (arXiv:2510.01161, alg. 1).

Elsewhere: AReaL, Relax and its authors' code on verl, each with other tokens.
Use: Samples of a policy many updates old, as with `--async`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import Objective, TokenBatch, Tokens
from rlvr_cli.algorithms.terms import advantage, ranking, ratio, surrogate, weight

if TYPE_CHECKING:
    from torch import Tensor

MASKED = "m2_masked"


def build(*, threshold: float = 0.04, eps: float = 1e-6, ddof: advantage.Ddof = 1) -> Objective:
    """The mean over all tokens of M r A without a clip.

        L = -1/T sum_i sum_t M_it r_it A_i,  r_it = pi(y_it) / pi_behaviour(y_it)
        M = 1; while mean over H of (log r)^2 > threshold: M = 0 at its largest, which leaves H

    H is the tokens with A > 0 and r > 1, or A < 0 and r < 1, and pi_behaviour the policy that
    sampled. M is chosen over the rollout batch, by the ratio of the policy before its first update;
    T counts the dropped tokens, too. threshold is in nats squared.
    A_i = (R_i - mean R) / (std R + eps).
    """
    if not 0 <= threshold < math.inf:
        raise ValueError("threshold must be at 0 or above, and finite")

    def log_ratio(batch: TokenBatch) -> Tensor:
        assert batch.behaviour_logp_BT is not None, "declared in needs"
        return ratio.token(batch.logp_BT, batch.behaviour_logp_BT, batch.mask_BT)

    def rule(tokens: Tokens) -> Tensor:
        moved_K = tokens.stored["old_logp"] - tokens.stored["behaviour_logp"]
        return ranking.outliers(moved_K.square(), tokens.advantage_K * moved_K > 0, mean=threshold)

    def masked(batch: TokenBatch) -> Tensor:
        return batch.token_columns[MASKED] > 0

    return Objective(
        advantage=advantage.normed(eps=eps, ddof=ddof),
        log_ratio=log_ratio,
        surrogate=lambda batch, d_BT: surrogate.importance(d_BT, batch.advantage_BT),
        weight=weight.token_mean,
        token_columns=((MASKED, rule),),
        needs=frozenset({"behaviour_logp", "stored_behaviour_logp", "stored_old_logp"}),
        against="behaviour",
        flat=lambda batch, _: masked(batch),
        factors=(lambda batch: ~masked(batch),),
    )

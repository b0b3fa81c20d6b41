"""KL-Cov: a penalty on the tokens that reduce entropy fastest (arXiv:2505.22617).

Elsewhere: verl, its authors' code on verl.
Use: Like `clip-cov`, with a penalty instead of a clip.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import Modifier, Objective, TokenBatch, Tokens
from rlvr_cli.algorithms.terms import ranking
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor

CHOSEN = "cov_penalised"


def build(*, share: float = 2e-4, beta: float = 1.0) -> Modifier:
    """Adds beta |log pi - log pi_old| to the cost of the tokens of largest covariance.

        cov_k = (log pi_old(y_k) - mean_j log pi_old(y_j)) (A_k - mean_j A_j)
        K_KL: the floor(share K) tokens of largest cov_k; one at least

    K counts the tokens of the rollout batch, over which the means are. The first update of a batch
    is as without: its policy is the old one. The paper's objective has no clip:
    `grpo:clip_low=1,clip_high=inf,aggregation=token-mean+kl-cov`.
    """
    if not 0 < share <= 1:
        raise ValueError("share must be above 0 and at most 1")
    if not 0 <= beta < math.inf:
        raise ValueError("beta must be at 0 or above, and finite")

    def rule(tokens: Tokens) -> Tensor:
        return ranking.largest(ranking.covariance(tokens), share=share)

    def penalty(batch: TokenBatch) -> Tensor:
        drift_BT = (batch.logp_BT - batch.old_logp_BT).abs()
        return beta * torch.where(batch.token_columns[CHOSEN] > 0, drift_BT, 0.0)

    def modify(objective: Objective) -> Objective:
        chosen = ranking.with_choice(objective, CHOSEN, rule, needs="stored_old_logp")
        return chosen.with_penalty(penalty)

    return modify

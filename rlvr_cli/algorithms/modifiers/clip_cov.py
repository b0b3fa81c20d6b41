"""Clip-Cov: a few tokens that reduce entropy fastest give no gradient (arXiv:2505.22617).

Elsewhere: verl, its authors' code on verl.
Use: Entropy falls early because of a few tokens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import Modifier, Objective, TokenBatch, Tokens
from rlvr_cli.algorithms.terms import ranking

if TYPE_CHECKING:
    from torch import Tensor

CHOSEN = "cov_clipped"


def build(*, share: float = 2e-4, low: float = 1.0, high: float = 5.0, seed: int = 0) -> Modifier:
    """The gain times 0 at tokens drawn from those of a covariance within low and high.

        cov_k = (log pi_old(y_k) - mean_j log pi_old(y_j)) (A_k - mean_j A_j)
        K_clip: floor(share K) of {k : low <= cov_k <= high}, by chance; one at least

    K counts the tokens of the rollout batch, over which the means are. Counts and penalties stay
    as they are. `seed` is that of the draw.
    """
    if not 0 < share <= 1:
        raise ValueError("share must be above 0 and at most 1")
    if not low < high:
        raise ValueError("low must be below high")

    def rule(tokens: Tokens) -> Tensor:
        covariance_K = ranking.covariance(tokens)
        return ranking.drawn_within(covariance_K, low=low, high=high, share=share, seed=seed)

    def factor(batch: TokenBatch) -> Tensor:
        return 1 - batch.token_columns[CHOSEN]

    def modify(objective: Objective) -> Objective:
        chosen = ranking.with_choice(objective, CHOSEN, rule, needs="stored_old_logp")
        return replace(chosen, factors=(*chosen.factors, factor))

    return modify

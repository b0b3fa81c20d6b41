"""Which tokens of a rollout batch are chosen by their rank. Shapes: K tokens. Float64.

A choice is 1 for a token and 0 for the others. It is computed once, before the first update.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import Objective, TokenBatch, TokenRule, Tokens
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor

_ROUNDING = 1e-9  # of a share times a count of tokens, and of a mean


def with_choice(objective: Objective, name: str, rule: TokenRule, *, needs: str) -> Objective:
    """The objective with the choice as a token column of this name, whose share is a metric."""

    def chosen(batch: TokenBatch, _: Tensor) -> tuple[Tensor, Tensor]:
        return batch.token_columns[name] > 0, torch.ones_like(batch.mask_BT)

    return replace(
        objective,
        needs=objective.needs | {needs},
        token_columns=(*objective.token_columns, (name, rule)),
        shares=(*objective.shares, (name, chosen)),
    )


def covariance(tokens: Tokens) -> Tensor:
    """What each token adds to the covariance of log-prob and advantage.

        (log pi_old(y_k) - mean_j log pi_old(y_j)) (A_k - mean_j A_j)

    The means are over all tokens. (arXiv:2505.22617, sec. 4.2)
    """
    logp_K, advantage_K = tokens.stored["old_logp"], tokens.advantage_K
    return (logp_K - logp_K.mean()) * (advantage_K - advantage_K.mean())


def drawn_within(value_K: Tensor, *, low: float, high: float, share: float, seed: int) -> Tensor:
    """So large a share of all tokens, drawn from those with low <= value <= high; one at least.

    Where there are fewer, all of them.
    """
    within_M = ((value_K >= low) & (value_K <= high)).nonzero()[:, 0]
    order_M = torch.randperm(len(within_M), generator=torch.Generator().manual_seed(seed))
    return _chosen(value_K, within_M[order_M[: _count(value_K, share)]])


def largest(value_K: Tensor, *, share: float) -> Tensor:
    """So large a share of the tokens, those of the largest values; one at least.

    Of equal values those that come first.
    """
    order_K = value_K.sort(descending=True, stable=True).indices
    return _chosen(value_K, order_K[: _count(value_K, share)])


def outliers(value_K: Tensor, among_K: Tensor, *, mean: float) -> Tensor:
    """The largest values, as many as it takes for the mean of the others to be at most `mean`.

    Only of the tokens where `among_K` is True. Of equal values those that come last.
    """
    which_M = among_K.nonzero()[:, 0]
    values = value_K[which_M].sort(stable=True)
    means_M = values.values.cumsum(0) / torch.arange(1, len(which_M) + 1, dtype=torch.float64)
    kept = int((means_M <= mean + _ROUNDING * mean).sum())
    return _chosen(value_K, which_M[values.indices[kept:]])


def upper_quantile(value_K: Tensor, *, share: float) -> Tensor:
    """The tokens whose value is at or above the quantile 1 - share of all values.

    Of equal values all or none.
    """
    if not len(value_K):
        return value_K
    place = math.ceil((1 - share) * (len(value_K) - 1) - _ROUNDING)
    return (value_K >= value_K.sort().values[place]).to(torch.float64)


def _count(value_K: Tensor, share: float) -> int:
    return max(math.floor(share * len(value_K) + _ROUNDING), 1)


def _chosen(value_K: Tensor, which_M: Tensor) -> Tensor:
    return torch.zeros_like(value_K).index_fill_(0, which_M, 1.0)

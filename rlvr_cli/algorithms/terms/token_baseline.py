"""A baseline for each token of a group. Shapes: K tokens. Float64."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import Tokens
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor


def energy(tokens: Tokens) -> Tensor:
    """The squared gradient by the logits, summed over the tokens of a completion so far.

        W_t = sum_{s <= t} (1 - 2 pi(y_s) + sum_v pi(v)^2)

    (arXiv:2602.07078)
    """
    step_K = 1 - 2 * tokens.stored["old_logp"].exp() + tokens.stored["collision"]
    sum_K = step_K.clamp(min=0).cumsum(0)  # stored in float32, it may fall below 0
    starts_K = tokens.place_K == 0
    before_R = (sum_K - step_K.clamp(min=0))[starts_K]
    return sum_K - before_R[starts_K.cumsum(0) - 1]


def weighted(tokens: Tokens, weight_K: Tensor, *, eps: float) -> Tensor:
    """Each token's advantage less the weighted mean of those at its place in its group.

    A_it - sum_j w_jt A_jt / (sum_j w_jt + eps), over the completions j that have a token t; A_it
    where all w_jt and eps are 0
    """
    width = int(tokens.place_K.max()) + 1 if len(weight_K) else 1
    where_K = tokens.group_K * width + tokens.place_K
    size = int(where_K.max()) + 1 if len(weight_K) else 0
    zero = torch.zeros(size, dtype=torch.float64)
    sums = zero.index_add(0, where_K, weight_K * tokens.advantage_K)
    totals = zero.index_add(0, where_K, weight_K) + eps
    baselines = torch.where(totals == 0, 0.0, sums / totals)
    return tokens.advantage_K - baselines[where_K]

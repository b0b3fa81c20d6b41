"""Weights for the gap between the rollout engine and the trainer. Shapes: B rows, T tokens.

Each takes the log of w_t = pi_old(y_t) / pi_behaviour(y_t) and gives a weight without gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlvr_cli.algorithms.terms import ratio
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor


def drift(old_logp_BT: Tensor, behaviour_logp_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """log w_t, 0 where masked."""
    return ratio.clamp(ratio.token(old_logp_BT, behaviour_logp_BT, mask_BT)).detach()


def truncated(drift_BT: Tensor, *, cap: float) -> Tensor:
    """min(w_t, cap)        (TIS)"""
    return drift_BT.exp().clamp(max=cap)


def masked(drift_BT: Tensor, *, cap: float) -> Tensor:
    """w_t where 1/cap <= w_t <= cap, else 0        (IcePop)"""
    w_BT = drift_BT.exp()
    return torch.where((w_BT >= 1 / cap) & (w_BT <= cap), w_BT, 0.0)


def sequence_masked(drift_BT: Tensor, *, cap: float) -> Tensor:
    """w = prod_t w_t at every token of a completion where w <= cap, else 0."""
    w_B1 = ratio.clamp(drift_BT.sum(-1, keepdim=True)).exp()
    return torch.where(w_B1 <= cap, w_B1, 0.0).expand_as(drift_BT)

"""How far the policy has moved at a token, by the sampled token's probability alone.

Shapes: B rows, T completion tokens. The vocabulary is folded into two: the sampled token, with
probability p under the policy and q under the old one, and the rest. (DPPO, arXiv:2602.04879)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import Objective, Step, TokenBatch, Totals
from rlvr_cli.algorithms.terms import ratio, surrogate
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor


def total_variation(logp_BT: Tensor, old_logp_BT: Tensor) -> Tensor:
    """|p - q|        (eq. 13)"""
    return (logp_BT.exp() - old_logp_BT.exp()).abs()


def kl(logp_BT: Tensor, old_logp_BT: Tensor) -> Tensor:
    """q log(q / p) + (1 - q) log((1 - q) / (1 - p)), in nats        (eq. 14)

    Infinite where the policy has become sure and the old one was not; 0 where both are sure.
    A log-prob that rounding has left above 0 is one of 0.
    """
    logp_BT, old_logp_BT = logp_BT.clamp(max=0), old_logp_BT.clamp(max=0)
    rest_BT, old_rest_BT = -logp_BT.expm1(), -old_logp_BT.expm1()
    of_rest_BT = torch.xlogy(old_rest_BT, old_rest_BT) - torch.xlogy(old_rest_BT, rest_BT)
    return old_logp_BT.exp() * (old_logp_BT - logp_BT) + of_rest_BT


def is_beyond(
    batch: TokenBatch,
    measure: Callable[[Tensor, Tensor], Tensor],
    *,
    low: float,
    high: float,
) -> Tensor:
    """Whether the policy has left the trust region at a token, and its gain pushes it on, [B, T].

    Up where A > 0 (more than `high`), down where A < 0 (more than `low`); never where masked.
    """
    logp_BT = torch.where(batch.mask_BT, batch.logp_BT.detach(), 0.0)
    old_logp_BT = torch.where(batch.mask_BT, batch.old_logp_BT, 0.0)
    moved_BT = measure(logp_BT, old_logp_BT)
    advantage_B1 = batch.advantage_BT
    up_BT = (advantage_B1 > 0) & (logp_BT > old_logp_BT) & (moved_BT > high)
    return up_BT | ((advantage_B1 < 0) & (logp_BT < old_logp_BT) & (moved_BT > low))


def masked(
    advantage: Callable[[Step], dict[str, Tensor]],
    weight: Callable[[Tensor, Totals], Tensor],
    measure: Callable[[Tensor, Tensor], Tensor],
    *,
    low: float,
    high: float,
) -> Objective:
    """r A, and 0 at tokens that are beyond the trust region and pushed further."""
    if not (low >= 0 and high >= 0):
        raise ValueError("low and high must be at 0 or above")

    def beyond(batch: TokenBatch, _: Tensor) -> Tensor:
        return is_beyond(batch, measure, low=low, high=high)

    def gain(batch: TokenBatch, log_ratio_BT: Tensor) -> Tensor:
        gain_BT = surrogate.importance(log_ratio_BT, batch.advantage_BT)
        return torch.where(beyond(batch, log_ratio_BT), 0.0, gain_BT)

    return Objective(
        advantage=advantage,
        log_ratio=lambda batch: ratio.token(batch.logp_BT, batch.old_logp_BT, batch.mask_BT),
        surrogate=gain,
        weight=weight,
        flat=beyond,
    )

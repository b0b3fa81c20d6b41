"""How far the policy has moved at a token, from only the sampled token's probability.

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
    batch: TokenBatch, moved_BT: Tensor, *, low: float | Tensor, high: float | Tensor
) -> Tensor:
    """Whether the policy has left the trust region at a token, and its gain pushes it on, [B, T].

    `moved_BT` is how far it has moved. Up where A > 0 (more than `high`), down where A < 0 (more
    than `low`); never where masked.
    """
    logp_BT, old_logp_BT = _log_probs(batch)
    advantage_B1 = batch.advantage_BT
    up_BT = (advantage_B1 > 0) & (logp_BT > old_logp_BT) & (moved_BT > high)
    return up_BT | ((advantage_B1 < 0) & (logp_BT < old_logp_BT) & (moved_BT > low))


def _log_probs(batch: TokenBatch) -> tuple[Tensor, Tensor]:
    """The policy's and the old policy's, without a gradient; 0 where masked."""
    logp_BT = torch.where(batch.mask_BT, batch.logp_BT.detach(), 0.0)
    return logp_BT, torch.where(batch.mask_BT, batch.old_logp_BT, 0.0)


def prefix_limit(
    moved_BT: Tensor, mask_BT: Tensor, *, delta: float, least: float, most: float, w_min: float
) -> Tensor:
    """How far each token may move, by its place and by how far those before it have moved.

        c_t / w_t,  c_t = min(delta, delta + delta_b W_t - S_t)                   (eq. 8)
        w_t = 1 - (1 - w_min) (t - 1) / (T - 1)                                   (eq. 9)
        S_t = sum_{s < t} w_s D_s,  W_t = sum_{s < t} w_s
        delta_b = the 90th percentile of D_1 to D_T, within least and most        (eq. 22)

    D is `moved_BT`. A completion has T trained tokens, and t counts them. In float64, where the
    padding does not decide how a sum is rounded. (CPPO, arXiv:2606.10968)
    """
    trained_BT = mask_BT.double()
    moved_BT = moved_BT.double() * trained_BT
    steps_B1 = (trained_BT.sum(-1, keepdim=True) - 1).clamp(min=1)
    weight_BT = 1 - (1 - w_min) * _before(trained_BT) / steps_B1
    delta_b_B1 = _percentile(moved_BT, mask_BT, 0.9).clamp(least, most)
    left_BT = delta_b_B1 * _before(weight_BT * trained_BT) - _before(weight_BT * moved_BT)
    return (delta + left_BT.clamp(max=0)) / weight_BT


def _before(value_BT: Tensor) -> Tensor:
    """The sum of the values before each position."""
    return value_BT.cumsum(-1) - value_BT


def _percentile(value_BT: Tensor, mask_BT: Tensor, share: float) -> Tensor:
    """The quantile of each row's trained tokens, between its neighbours linear in rank, [B, 1]."""
    ordered_BT = torch.where(mask_BT, value_BT, torch.inf).sort(-1).values
    rank_B1 = share * (mask_BT.double().sum(-1, keepdim=True) - 1).clamp(min=0)
    below_B1 = ordered_BT.gather(-1, rank_B1.floor().long())
    above_B1 = ordered_BT.gather(-1, rank_B1.ceil().long())
    return below_B1 + rank_B1.frac() * (above_B1 - below_B1)


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

    def beyond(batch: TokenBatch) -> Tensor:
        return is_beyond(batch, measure(*_log_probs(batch)), low=low, high=high)

    return _outside(advantage, weight, beyond)


def masked_by_prefix(
    advantage: Callable[[Step], dict[str, Tensor]],
    weight: Callable[[Tensor, Totals], Tensor],
    measure: Callable[[Tensor, Tensor], Tensor],
    *,
    delta: float,
    least: float,
    most: float,
    w_min: float,
) -> Objective:
    """The same, with the limit that each token has by its prefix."""

    def beyond(batch: TokenBatch) -> Tensor:
        moved_BT = measure(*_log_probs(batch))
        limit_BT = prefix_limit(
            moved_BT, batch.mask_BT, delta=delta, least=least, most=most, w_min=w_min
        )
        return is_beyond(batch, moved_BT, low=limit_BT, high=limit_BT)

    return _outside(advantage, weight, beyond)


def _outside(
    advantage: Callable[[Step], dict[str, Tensor]],
    weight: Callable[[Tensor, Totals], Tensor],
    beyond: Callable[[TokenBatch], Tensor],
) -> Objective:
    """r A, and 0 at the tokens that are `beyond`."""

    def gain(batch: TokenBatch, log_ratio_BT: Tensor) -> Tensor:
        gain_BT = surrogate.importance(log_ratio_BT, batch.advantage_BT)
        return torch.where(beyond(batch), 0.0, gain_BT)

    return Objective(
        advantage=advantage,
        log_ratio=lambda batch: ratio.token(batch.logp_BT, batch.old_logp_BT, batch.mask_BT),
        surrogate=gain,
        weight=weight,
        flat=lambda batch, _: beyond(batch),
    )

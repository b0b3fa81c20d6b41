"""Weights and masks for the gap between sampler and trainer. Shapes: B rows, T tokens.

Each takes the log of w_t = pi_old(y_t) / pi_behaviour(y_t), and gives what carries no gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rlvr_cli.algorithms.terms import ratio
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor

Estimator = Literal["k1", "k2", "k3"]
Span = Literal["token", "mean", "sum", "max"]


def drift(old_logp_BT: Tensor, behaviour_logp_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """log w_t, 0 where masked."""
    return ratio.clamp(ratio.token(old_logp_BT, behaviour_logp_BT, mask_BT)).detach()


def truncated(drift_BT: Tensor, *, low: float, cap: float) -> Tensor:
    """w_t, at least low and at most cap        (TIS)"""
    return drift_BT.exp().clamp(low, cap)


def masked(drift_BT: Tensor, *, low: float, cap: float) -> Tensor:
    """w_t where low <= w_t <= cap, else 0        (IcePop)"""
    w_BT = drift_BT.exp()
    return torch.where((w_BT >= low) & (w_BT <= cap), w_BT, 0.0)


def sequence_truncated(drift_BT: Tensor, *, low: float, cap: float) -> Tensor:
    """w = prod_t w_t at every token of a completion, at least low and at most cap."""
    return _product(drift_BT).clamp(low, cap).expand_as(drift_BT)


def sequence_masked(drift_BT: Tensor, *, low: float, cap: float) -> Tensor:
    """w = prod_t w_t at every token of a completion where low <= w <= cap, else 0."""
    w_B1 = _product(drift_BT)
    return torch.where((w_B1 >= low) & (w_B1 <= cap), w_B1, 0.0).expand_as(drift_BT)


def _product(drift_BT: Tensor) -> Tensor:
    return ratio.clamp(drift_BT.sum(-1, keepdim=True)).exp()


def gap(drift_BT: Tensor, *, by: Estimator) -> Tensor:
    """How far apart the policies are at a token, in nats.

        k1 = log w_t,  k2 = (log w_t)^2 / 2,  k3 = w_t - 1 - log w_t

    The expectation of k3 and that of -k1 are KL(pi_behaviour || pi_old); k1 has either sign.
    """
    if by == "k1":
        return drift_BT
    if by == "k2":
        return drift_BT.square() / 2
    return torch.expm1(drift_BT) - drift_BT


def outside(gap_BT: Tensor, mask_BT: Tensor, *, over: Span, below: float, above: float) -> Tensor:
    """Where the gap is below -below or above `above`, [B, T].

    That of a token, or at all tokens of a completion the mean or sum of its gaps, or, with `max`,
    that of any of them. `gap_BT` is 0 where masked.
    """
    if over == "mean":
        gap_BT = ratio.mean(gap_BT, mask_BT)
    elif over == "sum":
        gap_BT = gap_BT.sum(-1, keepdim=True).expand_as(gap_BT)
    outside_BT = (gap_BT > above) | (gap_BT < -below)
    return outside_BT.any(-1, keepdim=True).expand_as(gap_BT) if over == "max" else outside_BT


def mean_weight(
    weight_BT: Tensor, mask_BT: Tensor, *, of: Literal["tokens", "completions"]
) -> float:
    """The mean of the weights of trained tokens, or of completions by the mean of their tokens'.

    1 where there is none, or all are 0.
    """
    if of == "completions":
        weight_BT, mask_BT = ratio.mean(weight_BT, mask_BT)[:, 0], mask_BT.any(-1)
    mean = float(torch.where(mask_BT, weight_BT, 0.0).double().sum()) / max(int(mask_BT.sum()), 1)
    return mean or 1.0

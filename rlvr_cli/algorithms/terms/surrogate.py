"""Gains of tokens, to be maximised. Shapes: B rows, T completion tokens.

A gain of a completion is repeated at each of its tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlvr_cli.algorithms.terms import ratio
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor

_SMALL_POWER = 1e-8  # below, the power mean is the geometric mean to within rounding


def clipped(log_ratio_BT: Tensor, advantage_B1: Tensor, *, low: float, high: float) -> Tensor:
    """The lesser of the ratio's and the clipped ratio's share of the advantage.

    gain = min(r A, clip(r, 1 - low, 1 + high) A)        (PPO, arXiv:1707.06347, eq. 7)
    """
    r_BT = ratio.clamp(log_ratio_BT).exp()
    return pessimistic(r_BT, advantage_B1, low=low, high=high)


def pessimistic(r_BT: Tensor, advantage_B1: Tensor, *, low: float, high: float) -> Tensor:
    """min(r A, clip(r, 1 - low, 1 + high) A) of a ratio that may be rectified, and negative."""
    return torch.minimum(r_BT * advantage_B1, r_BT.clamp(1 - low, 1 + high) * advantage_B1)


def importance(log_ratio_BT: Tensor, advantage_B1: Tensor) -> Tensor:
    """The advantage times the ratio, without a clip.

    gain = r A        (arXiv:1707.06347, eq. 6)
    """
    return ratio.clamp(log_ratio_BT).exp() * advantage_B1


def log_prob(logp_BT: Tensor, advantage_B1: Tensor) -> Tensor:
    """The advantage times the log-prob, without any ratio.

    gain = A log pi        (GPG, arXiv:2504.02546)
    """
    return advantage_B1 * logp_BT


def capped(
    log_ratio_BT: Tensor, logp_BT: Tensor, advantage_B1: Tensor, *, floor: float, cap: float
) -> Tensor:
    """The log-prob's gain weighted by the ratio within bounds, held constant; no token drops out.

    gain = sg(clip(r, floor, cap)) A log pi        (CISPO, arXiv:2506.13585, eq. 4 and 5)
    """
    r_BT = ratio.clamp(log_ratio_BT).exp().clamp(floor, cap).detach()
    return r_BT * log_prob(logp_BT, advantage_B1)


def tapered(log_ratio_BT: Tensor, logp_BT: Tensor, advantage_B1: Tensor) -> Tensor:
    """The log-prob's gain, weighted by the ratio, at most 1, where the advantage is below 0.

    gain = A log pi if A > 0, sg(min(r, 1)) A log pi if A < 0        (TOPR, arXiv:2503.14286, eq. 8)
    """
    w_BT = ratio.clamp(log_ratio_BT).exp().clamp(max=1).detach()
    return torch.where(advantage_B1 < 0, w_BT, 1.0) * log_prob(logp_BT, advantage_B1)


def quadratic(
    d_BT: Tensor, log_ratio_BT: Tensor, logp_BT: Tensor, advantage_B1: Tensor, *, beta: float
) -> Tensor:
    """The log-prob's gain, less beta / 2 times a square of the log ratio.

        gain = A log pi - beta / 2 d_t d        (DRO, arXiv:2405.19107)

    d is that of the token, d_t; or that of the completion, whose square the tokens then sum to.
    The log ratio is not exponentiated, so nothing bounds it.
    """
    return log_prob(logp_BT, advantage_B1) - beta / 2 * d_BT * log_ratio_BT


def flipped(
    log_ratio_BT: Tensor, advantage_B1: Tensor, *, low: float, high: float, cap: float
) -> Tensor:
    """The advantage times the ratio of an error, or the reciprocal of that of a success, capped.

        gain = w A,  w = min(r, cap) if A < 0, min(1 / r, cap) if A > 0

    The gradient is w A grad log pi, also where w is capped and without a limit to the log ratio;
    beyond PPO's clip it is 0 and the gain that of the bound. (ASPO, arXiv:2510.06062, eq. 3)
    """
    r_BT = ratio.clamp(log_ratio_BT).exp().detach()
    w_BT = torch.where(advantage_B1 > 0, 1 / r_BT.clamp(max=1 + high), r_BT.clamp(min=1 - low))
    one_BT = (log_ratio_BT - log_ratio_BT.detach()).exp()
    beyond_BT = ratio.is_beyond(log_ratio_BT, advantage_B1, low=low, high=high)
    return advantage_B1 * w_BT.clamp(max=cap) * torch.where(beyond_BT, 1.0, one_BT)


def soft_gate(
    log_ratio_BT: Tensor, advantage_B1: Tensor, *, tau_pos: float, tau_neg: float
) -> Tensor:
    """The advantage times a sigmoid of the ratio, of slope 1 at a ratio of 1.

        gain = A 4 / tau sigmoid(tau (r - 1)),  tau = tau_pos if A > 0 else tau_neg

    Its gradient is 4 p (1 - p) r A grad log pi with p the sigmoid. (SAPO, arXiv:2511.20347)
    """
    tau_B1 = torch.full_like(advantage_B1, tau_neg).masked_fill(advantage_B1 > 0, tau_pos)
    r_BT = ratio.clamp(log_ratio_BT).exp()
    return advantage_B1 * 4 / tau_B1 * torch.sigmoid(tau_B1 * (r_BT - 1))


def parabolic(log_ratio_BT: Tensor, advantage_B1: Tensor, *, width: float) -> Tensor:
    """The advantage times the ratio, less a square of the ratio's distance from 1.

        gain = r A - |A| (r - 1)^2 / (2 width)

    It is greatest at r = 1 + width where A > 0 and at 1 - width where A < 0. (CFPO,
    arXiv:2601.22801; SPO, arXiv:2401.16025)
    """
    r_BT = ratio.clamp(log_ratio_BT).exp()
    return r_BT * advantage_B1 - advantage_B1.abs() * (r_BT - 1).square() / (2 * width)


def preserving(
    log_ratio_BT: Tensor,
    advantage_B1: Tensor,
    *,
    low: float,
    high: float,
    beta1: float,
    beta2: float,
) -> Tensor:
    """The clipped gain, whose clipped tokens keep a gradient as large as at the bound.

        gain = beta1 (1 - low) A   where A < 0 and r < 1 - low
               beta2 (1 + high) A where A > 0 and r > 1 + high
               r A                    elsewhere

    The gradient is the gain times grad log pi, on either side of a bound, without a limit to the
    log ratio. (CE-GPPO, arXiv:2509.20712)
    """
    r_BT = ratio.clamp(log_ratio_BT).exp()
    one_BT = (log_ratio_BT - log_ratio_BT.detach()).exp()
    below_BT = (advantage_B1 < 0) & (r_BT < 1 - low)
    above_BT = (advantage_B1 > 0) & (r_BT > 1 + high)
    inside_BT = torch.where(above_BT, beta2 * (1 + high) * one_BT, r_BT)
    return advantage_B1 * torch.where(below_BT, beta1 * (1 - low) * one_BT, inside_BT)


def reshaped(
    log_ratio_BT: Tensor,
    logp_BT: Tensor,
    advantage_B1: Tensor,
    *,
    pos: tuple[float, float],
    neg: tuple[float, float],
) -> Tensor:
    """The log-prob's gain under a smooth kernel of the completion's ratio, held constant.

        gain = sg(phi(W)) A log pi,  phi(W) = W^k exp(rate (1 - W))

    k and rate are `pos`, or `neg` where A < 0. phi(1) is 1, and phi is greatest at W = k / rate.
    (VESPO, arXiv:2602.10693)
    """
    k_B1, rate_B1 = (
        torch.full_like(advantage_B1, p).masked_fill(advantage_B1 < 0, n)
        for p, n in zip(pos, neg, strict=True)
    )
    log_w_BT = ratio.clamp(log_ratio_BT).detach()
    phi_BT = (k_B1 * log_w_BT + rate_B1 * (1 - log_w_BT.exp())).exp()
    return phi_BT * log_prob(logp_BT, advantage_B1)


def geometric(
    log_ratio_BT: Tensor, advantage_B1: Tensor, mask_BT: Tensor, *, clip: float
) -> Tensor:
    """The advantage times the geometric mean of ratios clipped on the side that is rewarded.

    gain = A exp(mean_t d'_t),  d' = min(d, clip) if A > 0, max(d, -clip) if A < 0

    (GMPO, arXiv:2507.20673)
    """
    d_BT = torch.where(
        advantage_B1 < 0, log_ratio_BT.clamp(min=-clip), log_ratio_BT.clamp(max=clip)
    )
    return advantage_B1 * ratio.clamp(ratio.mean(d_BT, mask_BT)).exp()


def power_mean(
    log_ratio_BT: Tensor,
    advantage_B1: Tensor,
    mask_BT: Tensor,
    *,
    power_B1: Tensor,
    low_B1: Tensor,
    high_B1: Tensor,
) -> Tensor:
    """The advantage times the power mean of ratios clipped on the side that is rewarded.

        gain = A (mean_t u_t^p)^(1/p),  u = min(r, 1 + high) if A > 0, max(r, 1 - low) if A < 0

    In log space. It equals sgn(A) (mean_t |min(r A, clip(r) A)|^p)^(1/p) since the power mean is
    homogeneous; p = 0 is the geometric mean. (APMPO, arXiv:2605.04066, eq. 7 to 9)
    """
    d_BT = ratio.clamp(log_ratio_BT)
    above_BT = torch.minimum(d_BT, torch.log1p(high_B1))
    below_BT = torch.maximum(d_BT, torch.log1p(-low_B1.clamp(max=1)))
    u_BT = torch.where(advantage_B1 < 0, below_BT, above_BT)
    arithmetic_B1 = power_B1.abs() > _SMALL_POWER
    p_B1 = torch.where(arithmetic_B1, power_B1, 1.0)
    sums_B1 = torch.where(mask_BT, p_B1 * u_BT, -torch.inf).logsumexp(-1, keepdim=True)
    length_B1 = mask_BT.sum(-1, keepdim=True).clamp(min=1).to(u_BT.dtype)
    empty_B1 = ~mask_BT.any(-1, keepdim=True)
    mean_B1 = (sums_B1.masked_fill(empty_B1, 0.0) - length_B1.log()) / p_B1
    log_mean_BT = torch.where(arithmetic_B1, mean_B1, ratio.mean(u_BT, mask_BT))
    return advantage_B1 * log_mean_BT.expand_as(mask_BT).exp()


def trust_region(
    log_ratio_BT: Tensor,
    advantage_B1: Tensor,
    *,
    log_ratio: bool = True,
    detach: bool = True,
    clamp: bool = True,
) -> Tensor:
    """The ratio times what is left of the advantage beyond the log ratio, held constant.

        gain = rho (A - sg(log rho))        (QUATRO, arXiv:2602.04620, eq. 14)

    Its gradient is rho (A - log rho) grad log pi: 0 once log rho has reached A. Without `detach`
    the log ratio carries gradient (eq. 35); without `log_ratio` it is left out (Remark 3.4).

    With `clamp` log rho is held within +-20 nats, and flat beyond: a completion that has drifted
    further has no gradient. Without it the gradient is w (A - log rho) grad log pi everywhere,
    where the weight w is rho up to e^20 and e^20 above, which float32 can square.
    """
    log_rho_BT = ratio.clamp(log_ratio_BT) if clamp else log_ratio_BT
    drift_BT = log_rho_BT.detach() if detach else log_rho_BT
    left_BT = advantage_B1 - (drift_BT if log_ratio else 0.0)
    if clamp:
        return log_rho_BT.exp() * left_BT
    weight_BT = log_rho_BT.detach().clamp(max=ratio.LIMIT).exp()
    moved_BT = log_rho_BT - log_rho_BT.detach()  # 0, with the gradient of rho / sg(rho)
    return weight_BT * (left_BT + left_BT.detach() * moved_BT)

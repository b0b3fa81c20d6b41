"""The dual of QUATRO's trust region, for all prompts at once.

Shapes: N completions, P prompts. Float64. (arXiv:2602.04620, sec. 3)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlvr_cli.algorithms import group_stats
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor

COLUMNS = ("lam", "mu", "achieved_kl", "floored")
_BISECTIONS = 64


def trust_region(
    reward_N: Tensor, group_N: Tensor, *, delta: float, max_gap: float
) -> dict[str, Tensor]:
    """The log-density ratio of each prompt's trust-region optimum to the old policy.

        A_i = R_i / lam - log mean_j exp(R_j / lam)                           (eq. 15)
        KL(softmax(R / lam) || uniform) = delta
        mu = lam (log mean_j exp(R_j / lam) - 1)

    The KL falls as lam grows and is at most (R_max - R_min)^2 / (8 lam^2), which brackets lam
    from above. From below lam is floored at (R_max - R_min) / max_gap: with m completions at the
    maximum no lam reaches delta >= log(G / m). A group of equal rewards has A = 0 and no lam.
    """
    low_N, high_N = group_stats.extremes(reward_N, group_N)
    gap_N = high_N - low_N
    constant_N = gap_N <= 0
    scaled_N = (reward_N - high_N) / gap_N.masked_fill(constant_N, 1)
    floor = torch.as_tensor(1 / max_gap, dtype=torch.float64).log()
    below_N = floor.expand_as(reward_N)
    above_N = torch.as_tensor(1 / (8 * delta) ** 0.5, dtype=torch.float64).log().expand_as(reward_N)
    floored_N = _kl(scaled_N, below_N, group_N) < delta
    for _ in range(_BISECTIONS):
        middle_N = (below_N + above_N) / 2
        inside_N = _kl(scaled_N, middle_N, group_N) < delta
        below_N = torch.where(inside_N, below_N, middle_N)
        above_N = torch.where(inside_N, middle_N, above_N)
    log_lam_N = torch.where(floored_N, floor, above_N)
    lam_N = log_lam_N.exp() * gap_N
    log_mean_N = _log_mean_exp(scaled_N, log_lam_N, group_N)
    return {
        "advantage": torch.where(constant_N, 0.0, scaled_N / log_lam_N.exp() - log_mean_N),
        "lam": torch.where(constant_N, torch.nan, lam_N),
        "mu": torch.where(constant_N, torch.nan, lam_N * (log_mean_N - 1) + high_N),
        "achieved_kl": torch.where(constant_N, 0.0, _kl(scaled_N, log_lam_N, group_N)),
        "floored": torch.where(constant_N, 0.0, floored_N.to(torch.float64)),
    }


def _log_mean_exp(scaled_N: Tensor, log_lam_N: Tensor, group_N: Tensor) -> Tensor:
    """log mean_j exp(R_j / lam) of the row's group, for rewards shifted to a maximum of 0."""
    return group_stats.mean((scaled_N / log_lam_N.exp()).exp(), group_N).log()


def _kl(scaled_N: Tensor, log_lam_N: Tensor, group_N: Tensor) -> Tensor:
    """KL(softmax(R / lam) || uniform) of the row's group.

    The mean of w log w with w_i = exp(R_i / lam) / mean_j exp(R_j / lam).
    """
    log_w_N = scaled_N / log_lam_N.exp() - _log_mean_exp(scaled_N, log_lam_N, group_N)
    return group_stats.mean(log_w_N.exp() * log_w_N, group_N)

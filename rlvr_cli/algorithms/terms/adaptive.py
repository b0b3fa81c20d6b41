"""APMPO's exponent and clip bound from reward statistics. Shapes: N completions. Float64.

(arXiv:2605.04066, sec. 4.2 and 4.3)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rlvr_cli.algorithms import group_stats
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor

_EPS = 1e-6

Exponent = Literal["exponential", "linear"]
Stability = Literal["full", "mean", "inverse-std"]


def power(mean_N: Tensor, *, gamma: float, form: Exponent) -> Tensor:
    """The exponent of the power mean: 1 at a mean reward of 0, smaller as rewards grow.

    p = exp(-gamma mu)  (eq. 4)  or  1 - gamma mu  (eq. 11)
    """
    return torch.exp(-gamma * mean_N) if form == "exponential" else 1 - gamma * mean_N


def clip_bound(
    mean_N: Tensor, std_N: Tensor, *, low: float, high: float, score: Stability, squash: bool
) -> Tensor:
    """The adaptive distance of the clip from 1, within [low, high] for rewards >= 0 if squashed.

        e_ada = low + (high - low) tanh(FSS)        (eq. 6)
        FSS = mu / (sigma + 1e-6)                   (eq. 5), or mu, or 1 / (sigma + 1e-6)

    Without `squash` it is Algorithm 1's line 18, which has no tanh and no upper end.
    """
    stability_N = {
        "full": mean_N / (std_N + _EPS),
        "mean": mean_N,
        "inverse-std": 1 / (std_N + _EPS),
    }[score]
    return low + (high - low) * (stability_N.tanh() if squash else stability_N)


def statistics(
    reward_N: Tensor, group_N: Tensor, *, over: Literal["batch", "group"]
) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation (ddof 0) of the rewards of the batch or of each group."""
    which_N = group_N if over == "group" else torch.zeros_like(group_N)
    return group_stats.mean(reward_N, which_N), group_stats.std(reward_N, which_N, ddof=0)

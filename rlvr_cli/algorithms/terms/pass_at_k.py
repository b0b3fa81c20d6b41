"""Advantages whose reward is the best of k completions. Shapes: N completions, G of one prompt, M
subsets of k of them. Float64.

(Pass@k Training, arXiv:2508.10751, sec. 2)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor

Form = Literal["analytic", "bootstrap", "full"]


def estimate(
    reward_N: Tensor, group_N: Tensor, one: Callable[[Tensor], tuple[Tensor, Tensor]]
) -> dict[str, Tensor]:
    """The advantages by `one`, of the rewards of a prompt, and which completions it left out."""
    advantage_N = torch.zeros_like(reward_N)
    keep_N = torch.ones(len(reward_N), dtype=torch.bool)
    for group in sorted(set(group_N.tolist())):
        which_G = (group_N == group).nonzero()[:, 0]
        advantage_N[which_G], keep_N[which_G] = one(reward_N[which_G])
    return {"advantage": advantage_N, "keep": keep_N}


def analytic(reward_G: Tensor, *, k: int, eps: float) -> tuple[Tensor, Tensor]:
    """The mean over all subsets that hold a completion, of how good the best of the subset is.

        A_i = (E[max | i] - m) / (s + eps)

    m and s are mean and standard deviation of the maximum over all subsets of k completions. With
    C correct of G of rewards 0 and 1 it is the paper's closed form (sec. 2.4):

        m = 1 - binom(G - C, k) / binom(G, k),  s = sqrt(m (1 - m))
        A = (1 - m) / s if correct, else (1 - m - binom(G - C - 1, k - 1) / binom(G - 1, k - 1)) / s
    """
    size = len(reward_G)
    every_G = torch.ones(size, dtype=torch.bool)
    sorted_G, order_G = reward_G.sort(stable=True)
    if size < k or sorted_G[k - 1] == sorted_G[-1]:  # every subset has the best there is
        return torch.zeros_like(reward_G), every_G
    best_G = _ratios(range(size), k - 1, math.comb(size, k))  # of all subsets, whose best it is
    mean = (best_G * sorted_G).sum()
    deviation = (best_G * (sorted_G - mean).square()).sum().sqrt()
    own_G = _ratios(range(size), k - 1, math.comb(size - 1, k - 1))  # of those that hold it
    above_G = _ratios(range(-1, size - 1), k - 2, math.comb(size - 1, k - 1)) * sorted_G
    after_G = above_G.flip(0).cumsum(0).flip(0) - above_G
    advantage_G = torch.empty_like(reward_G)
    advantage_G[order_G] = (own_G * sorted_G + after_G - mean) / (deviation + eps)
    return advantage_G, every_G


def _ratios(numbers: range, chosen: int, total: int) -> Tensor:
    """binom(n, chosen) / total of each number; 0 where it is below 0, or `chosen` is."""
    counts = [math.comb(n, chosen) if n >= 0 and chosen >= 0 else 0 for n in numbers]
    return torch.tensor([count / total for count in counts], dtype=torch.float64)


def sampled(reward_G: Tensor, subset_MK: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    """The mean over the subsets that hold a completion, of their best reward, normalised.

        A_j = (max_{i in j} R_i - m) / (s + eps)

    m and s (ddof 0) are over the subsets. A completion in none of them is left out.
    """
    best_M = reward_G[subset_MK].amax(-1)
    value_M = (best_M - best_M.mean()) / (best_M.std(correction=0) + eps)
    if best_M.min() == best_M.max():
        value_M = torch.zeros_like(best_M)
    ones_MK = torch.ones(subset_MK.shape, dtype=torch.float64)
    count_G = torch.zeros_like(reward_G).index_add_(0, subset_MK.flatten(), ones_MK.flatten())
    spread_MK = value_M[:, None] * ones_MK
    sum_G = torch.zeros_like(reward_G).index_add_(0, subset_MK.flatten(), spread_MK.flatten())
    return sum_G / count_G.clamp(min=1), count_G > 0


def parted(size: int, k: int) -> Tensor:
    """The completions in order, cut into subsets of k, [M, K]; fewer than k at the end are left."""
    return torch.arange(size // k * k).view(-1, k)


def drawn(size: int, k: int, subsets: int, seed: int) -> Tensor:
    """So many subsets of k completions, each drawn without replacement, [M, K]."""
    chance_MG = torch.rand(
        subsets, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    return chance_MG.argsort(-1)[:, :k]

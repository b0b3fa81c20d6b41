"""Advantages from the rewards of groups. Shapes: N completions. Float64.

Estimators that compare the completions of a group give exactly 0 where its rewards are all equal;
`whitened` takes the mean of the batch off that 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from rlvr_cli.algorithms import group_stats
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor

    from rlvr_cli.algorithms.objective import Step

Ddof = Literal[0, 1]
_LEAST_VARIANCE = 1e-8


def check_eps(eps: float) -> None:
    """ValueError for an eps that would turn advantages round, or leave none."""
    if not 0 <= eps < math.inf:
        raise ValueError("eps must be at 0 or above, and finite")


def normed(*, eps: float, ddof: Ddof) -> Callable[[Step], dict[str, Tensor]]:
    """The estimator of `group_norm`; ValueError if eps is below 0 or infinite."""
    check_eps(eps)
    return lambda step: {"advantage": group_norm(step.reward_N, step.group_N, eps=eps, ddof=ddof)}


def group_norm(reward_N: Tensor, group_N: Tensor, *, eps: float = 1e-6, ddof: int = 1) -> Tensor:
    """Reward minus the group's mean, over the group's standard deviation.

    A_i = (R_i - mean_j R_j) / (std_j R_j + eps)        (GRPO, arXiv:2402.03300, sec. 4.1.2)
    """
    off_N = group_mean(reward_N, group_N)
    return _over(off_N, group_stats.std(reward_N, group_N, ddof=ddof) + eps)


def group_mean(reward_N: Tensor, group_N: Tensor) -> Tensor:
    """Reward minus the group's mean.

    A_i = R_i - mean_j R_j        (Dr. GRPO, arXiv:2503.20783, sec. 3.2)
    """
    off_N = reward_N - group_stats.mean(reward_N, group_N)
    return torch.where(_constant(reward_N, group_N), 0.0, off_N)


def batch_norm(
    reward_N: Tensor,
    group_N: Tensor,
    *,
    of: Literal["rewards", "advantages"],
    eps: float,
    ddof: int,
) -> Tensor:
    """Reward minus the group's mean, over one standard deviation of the batch.

    A_i = (R_i - mean_j R_j) / (s + eps),  s of all rewards or of all R_i - mean_j R_j

    (Lite PPO, arXiv:2508.08221; Magistral, arXiv:2506.10910, sec. 2.1)
    """
    off_N = group_mean(reward_N, group_N)
    value_N = reward_N if of == "rewards" else off_N
    return _over(off_N, group_stats.std(value_N, torch.zeros_like(group_N), ddof=ddof) + eps)


def decoupled(
    parts: Sequence[tuple[float, Tensor]],
    group_N: Tensor,
    *,
    eps: float,
    ddof: int,
) -> Tensor:
    """The weighted sum of each reward's group-normalised advantage, standardised over the batch.

        S_i = sum_n w_n (R_ni - mean_j R_nj) / (std_j R_nj + eps)
        A_i = S_i / (std_j S_j + eps)

    The deviation of S is over all completions of the batch. Its mean, which the paper takes off, is
    0: the terms of each group sum to 0. `parts` are w_n and R_n; a NaN leaves its reward's
    statistics and adds nothing. (GDPO, arXiv:2601.05242)
    """
    sum_N = torch.zeros(group_N.shape, dtype=torch.float64)
    for share, reward_N in parts:
        there_N = ~reward_N.isnan()
        normed = group_norm(reward_N[there_N], group_N[there_N], eps=eps, ddof=ddof)
        sum_N[there_N] += share * normed
    return _over(sum_N, group_stats.std(sum_N, torch.zeros_like(group_N), ddof=ddof) + eps)


def leave_one_out(reward_N: Tensor, group_N: Tensor) -> Tensor:
    """Reward minus the mean of the other rewards of the group; 0 in a group of one.

    A_i = R_i - sum_{j != i} R_j / (G - 1) = G / (G - 1) (R_i - mean_j R_j)

    (RLOO, arXiv:2402.14740, eq. 7)
    """
    size_N = _size(reward_N, group_N)
    return size_N / (size_N - 1).clamp(min=1) * group_mean(reward_N, group_N)


def mixed_share(reward_N: Tensor, group_N: Tensor) -> Tensor:
    """Reward minus the group's mean, scaled up by the share of completions that carry signal.

        A_i = alpha (R_i - mean_j R_j),  alpha = B / (completions in groups of unequal rewards)

    B counts the completions of the batch. (GPG, arXiv:2504.02546)
    """
    mixed = int((~_constant(reward_N, group_N)).sum())
    return len(reward_N) / max(mixed, 1) * group_mean(reward_N, group_N)


def over_mean(reward_N: Tensor, group_N: Tensor, *, eps: float) -> Tensor:
    """Reward minus the group's mean, over the group's mean; for rewards at 0 or above.

        A_i = (R_i - mean_j R_j) / (mean_j R_j + eps)

    Of rewards of 0 and 1 the mean of A grad log pi is, in expectation, the gradient of
    log Pass@1 = -sum_k (1 - Pass@1)^k / k without the terms from k = G on. (MaxRL,
    arXiv:2602.02710)
    """
    mean_N = group_stats.mean(reward_N, group_N)
    return _over(group_mean(reward_N, group_N), mean_N + eps)


def length_weighted(reward_N: Tensor, group_N: Tensor, length_N: Tensor) -> Tensor:
    """Reward minus the group's mean over tokens; 0 in a group of one.

        A_i = R_i - sum_j l_j R_j / sum_j l_j

    The baseline of least variance, if a completion's squared gradient grows as its length l.
    (OPO, arXiv:2505.23585)
    """
    length_N = length_N.to(reward_N.dtype)
    share_N = length_N / group_stats.total(length_N, group_N).clamp(min=1)
    off_N = reward_N - group_stats.total(share_N * reward_N, group_N)
    return torch.where(_constant(reward_N, group_N), 0.0, off_N)


def nonzero_share(reward_N: Tensor, group_N: Tensor) -> Tensor:
    """Reward minus the group's mean, scaled up by the share of rewards that are not 0.

        A_i = alpha (R_i - mean_j R_j),  alpha = B / (completions with R != 0)

    B counts the completions of the batch. (GPG as verl computes it)
    """
    nonzero = int(torch.count_nonzero(reward_N))
    return len(reward_N) / max(nonzero, 1) * group_mean(reward_N, group_N)


def whitened(reward_N: Tensor, group_N: Tensor, length_N: Tensor, *, zero_equal: bool) -> Tensor:
    """Reward minus the group's mean, standardised over all tokens of the rollout batch.

        B_i = R_i - mean_j R_j,  A_i = (B_i - m) / sqrt(max(v, 1e-8))

    m and v are mean and biased variance of B with each completion counted once a token. A group of
    equal rewards has B = 0, and so A = -m / sqrt(v), or with `zero_equal` 0; a group of one has 0.
    (REINFORCE++ with baseline, arXiv:2501.03262, sec. 3.2)
    """
    alone_N = _size(reward_N, group_N) == 1
    zero_N = alone_N | _constant(reward_N, group_N) if zero_equal else alone_N
    return torch.where(zero_N, 0.0, standardised(group_mean(reward_N, group_N), length_N))


def standardised(value_N: Tensor, count_N: Tensor) -> Tensor:
    """Values less their mean, over their deviation, each of them counted so often.

        (x_i - m) / sqrt(max(v, 1e-8)),  m and v mean and biased variance

    Exactly 0 where all are equal. (REINFORCE++, arXiv:2501.03262, eq. 10)
    """
    if bool((value_N == value_N[:1]).all()):
        return torch.zeros_like(value_N)
    share_N = count_N.to(torch.float64) / count_N.sum().clamp(min=1)
    centred_N = value_N - (share_N * value_N).sum()
    variance = (share_N * centred_N.square()).sum().clamp(min=_LEAST_VARIANCE)
    return centred_N / variance.sqrt()


def signed(correct_N: Tensor, *, positive: float, negative: float) -> Tensor:
    """One number for correct completions and one for the others, without a baseline.

    (arXiv:2506.01347, sec. 3)
    """
    out_N = torch.full(correct_N.shape, negative, dtype=torch.float64)
    return out_N.masked_fill(correct_N, positive)


def inverse_success(advantage_N: Tensor, group_N: Tensor, *, alpha: float) -> Tensor:
    """Advantages above 0 times the number of the group's other completions to the power alpha.

        A_i (G - |S+|)^alpha  where A_i > 0,  S+ = {j : A_j > 0}

    0^0 is 1. (IAC, When Sharpening Becomes Collapse, sec. 3.1)
    """
    positive_N = advantage_N > 0
    count_N = group_stats.total(positive_N.to(torch.float64), group_N)
    scale_N = (_size(advantage_N, group_N) - count_N) ** alpha
    return torch.where(positive_N, advantage_N * scale_N, advantage_N)


def overlong(length_N: Tensor, *, longest: int, buffer: int) -> Tensor:
    """What a completion loses for ending within the last `buffer` tokens.

    min(-(len - (L_max - L_buf)) / L_buf, 0)        (DAPO, arXiv:2503.14476, eq. 13)
    """
    return -(length_N.to(torch.float64) - (longest - buffer)).clamp(min=0) / buffer


def _over(value_N: Tensor, scale_N: Tensor) -> Tensor:
    """A quotient that is 0 where the value is, whatever it is divided by (`eps=0`)."""
    return torch.where(value_N == 0, value_N, value_N / scale_N)


def _constant(reward_N: Tensor, group_N: Tensor) -> Tensor:
    low_N, high_N = group_stats.extremes(reward_N, group_N)
    return low_N >= high_N


def _size(value_N: Tensor, group_N: Tensor) -> Tensor:
    return group_stats.total(torch.ones_like(value_N), group_N)

"""Statistics of groups; a group is one prompt_id, N completions carry its number.

Shapes: N completions, P prompts. Float64 in, float64 out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor


def total(value_N: Tensor, group_N: Tensor) -> Tensor:
    """The sum of each group, at each of its rows."""
    sum_P = torch.zeros(_count(group_N), dtype=value_N.dtype).index_add_(0, group_N, value_N)
    return sum_P[group_N]


def extremes(value_N: Tensor, group_N: Tensor) -> tuple[Tensor, Tensor]:
    """The least and the greatest value of each group, at each of its rows."""
    start = torch.zeros(_count(group_N), dtype=value_N.dtype)
    low_P = start.scatter_reduce(0, group_N, value_N, "amin", include_self=False)
    high_P = start.scatter_reduce(0, group_N, value_N, "amax", include_self=False)
    return low_P[group_N], high_P[group_N]


def mean(value_N: Tensor, group_N: Tensor) -> Tensor:
    """The mean of each group, at each of its rows."""
    return total(value_N, group_N) / total(torch.ones_like(value_N), group_N)


def std(value_N: Tensor, group_N: Tensor, *, ddof: int) -> Tensor:
    """The standard deviation of each group, at each of its rows; 0 for a group of `ddof`."""
    size_N = total(torch.ones_like(value_N), group_N)
    squares_N = total((value_N - mean(value_N, group_N)).square(), group_N)
    return (squares_N / (size_N - ddof).clamp(min=1)).sqrt()


def statistics(
    reward_N: Tensor, group_N: Tensor, present_N: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Size, mean and standard deviation (ddof 1) over the present rows, at every row.

    NaN where a group has no present row; the deviation of one is 0.
    """
    size_N = total(present_N.to(reward_N.dtype), group_N)
    mean_N = total(torch.where(present_N, reward_N, 0.0), group_N) / size_N
    off_N = torch.where(present_N, reward_N - mean_N, 0.0)
    std_N = (total(off_N.square(), group_N) / (size_N - 1).clamp(min=1)).sqrt()
    return size_N.to(torch.int64), mean_N, torch.where(size_N > 0, std_N, torch.nan)


def is_constant(reward_N: Tensor, group_N: Tensor, present_N: Tensor) -> Tensor:
    """Whether all present rewards of the row's group are equal, tested exactly."""
    low_N, _ = extremes(torch.where(present_N, reward_N, torch.inf), group_N)
    _, high_N = extremes(torch.where(present_N, reward_N, -torch.inf), group_N)
    return low_N >= high_N


def _count(group_N: Tensor) -> int:
    return int(group_N.max()) + 1 if len(group_N) else 0

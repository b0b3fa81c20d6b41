"""Advantages from the rewards of groups. Shapes: N completions. Float64."""

from torch import Tensor

from rlvr_cli import groups


def group_norm(reward_N: Tensor, group_N: Tensor, *, eps: float = 1e-6, ddof: int = 1) -> Tensor:
    """Reward minus the group's mean, over the group's standard deviation.

        A_i = (r_i - mean_j r_j) / (std_j r_j + eps)        (GRPO, arXiv:2402.03300, sec. 4.1.2)

    0 in a group of equal rewards, up to rounding.
    """
    off_N = reward_N - groups.mean(reward_N, group_N)
    return off_N / (groups.std(reward_N, group_N, ddof=ddof) + eps)

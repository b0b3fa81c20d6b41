"""Dr. GRPO: no division by deviation or length (arXiv:2503.20783, sec. 3.2)."""

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, token_clip, weight


def build(*, clip_low: float = 0.2, clip_high: float = 0.2) -> Objective:
    """The sum over tokens over a constant length, then the mean over completions.

    L = -1/N sum_i 1/L_max sum_t min(r_it A_i, clip(r_it, 1 - clip_low, 1 + clip_high) A_i)
    A_i = R_i - mean R
    """
    return token_clip.objective(
        lambda step: {"advantage": advantage.group_mean(step.reward_N, step.group_N)},
        weight.constant,
        low=clip_low,
        high=clip_high,
    )

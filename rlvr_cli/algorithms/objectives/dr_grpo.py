"""Dr. GRPO: no division by deviation or length (arXiv:2503.20783, sec. 3.2).

Elsewhere: verl and ms-swift (by options), TRL, OpenRLHF.
Use: The loss itself should not reward length.
"""

from dataclasses import replace

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, token_clip, weight

EARLIER = {"longest": 0}


def build(*, clip_low: float = 0.2, clip_high: float = 0.2, longest: int = 0) -> Objective:
    """The sum over tokens over a constant length, then the mean over completions.

    L = -1/N sum_i 1/L_max sum_t min(r_it A_i, clip(r_it, 1 - clip_low, 1 + clip_high) A_i)
    A_i = R_i - mean R

    L_max is `longest`, or with 0 the rollout's --max-new-tokens.
    """
    if longest < 0:
        raise ValueError("longest must be 0 or more tokens")
    objective = token_clip.objective(
        lambda step: {"advantage": advantage.group_mean(step.reward_N, step.group_N)},
        weight.constant,
        low=clip_low,
        high=clip_high,
    )
    return replace(objective, longest=longest)

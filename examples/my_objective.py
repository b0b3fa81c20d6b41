"""An objective of your own: GRPO with the sign of the advantage, so all groups count alike."""

import torch

from rlvr_cli.algorithms import group_stats
from rlvr_cli.algorithms.objective import Objective, Step
from rlvr_cli.algorithms.terms import token_clip, weight


def build(*, clip: float = 0.2) -> Objective:
    """The clipped token ratio with A_i = sign(R_i - mean R), the mean over all tokens.

    A is exactly 0 in a group of equal rewards, where rounding would decide the sign.

    The keyword arguments are the options: `my_objective.py:build:clip=0.3`.
    """

    def estimate(step: Step) -> dict[str, torch.Tensor]:
        reward_N, group_N = step.reward_N, step.group_N
        sign_N = torch.sign(reward_N - group_stats.mean(reward_N, group_N))
        constant_N = group_stats.is_constant(reward_N, group_N, step.present_N)
        return {"advantage": torch.where(constant_N, 0.0, sign_N)}

    return token_clip.objective(estimate, weight.token_mean, low=clip, high=clip)

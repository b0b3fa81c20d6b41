"""Lite PPO: the group's mean, the deviation of the batch (arXiv:2508.08221).

Elsewhere: TRL (`scale_rewards="batch"`), ROLL.
Use: Prompts that are nearly always or nearly never solved: their small deviations should not
    inflate advantages.
"""

from typing import Literal

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, token_clip, weight


def build(
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    deviation: Literal["rewards", "advantages"] = "rewards",
    eps: float = 1e-6,
    ddof: advantage.Ddof = 1,
) -> Objective:
    """The mean over all tokens of min(r A, clip(r) A).

        L = -1/T sum_i sum_t min(r_it A_i, clip(r_it, 1 - clip_low, 1 + clip_high) A_i)
        A_i = (R_i - mean R) / (s + eps)

    mean R is the group's. s is the standard deviation of all rewards of the rollout batch, or with
    `deviation=advantages` that of R_i - mean R over the batch, as Magistral has it
    (arXiv:2506.10910, sec. 2.1).
    """
    advantage.check_eps(eps)
    return token_clip.objective(
        lambda step: {
            "advantage": advantage.batch_norm(
                step.reward_N, step.group_N, of=deviation, eps=eps, ddof=ddof
            )
        },
        weight.token_mean,
        low=clip_low,
        high=clip_high,
    )

"""RLOO: the mean of the other rewards as baseline (arXiv:2402.14740, eq. 7).

Elsewhere: verl, TRL, OpenRLHF, SkyRL, ms-swift, NeMo-RL.
Use: An unbiased gradient with small groups.
"""

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, token_clip, weight


def build(*, clip_low: float = 0.2, clip_high: float = 0.2) -> Objective:
    """The mean over all tokens of min(r A, clip(r) A).

    L = -1/T sum_i sum_t min(r_it A_i, clip(r_it, 1 - clip_low, 1 + clip_high) A_i)
    A_i = R_i - sum_{j != i} R_j / (G - 1)
    """
    return token_clip.objective(
        lambda step: {"advantage": advantage.leave_one_out(step.reward_N, step.group_N)},
        weight.token_mean,
        low=clip_low,
        high=clip_high,
    )

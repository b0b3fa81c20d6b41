"""OPO: the baseline of least variance, a mean over tokens (arXiv:2505.23585).

Elsewhere: verl, XTuner, TRL and prime-rl (pull requests).
Use: One update per batch, and lengths that differ a lot.
"""

from dataclasses import replace

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, token_clip, weight


def build(*, clip_low: float = 0.2, clip_high: float = 0.2) -> Objective:
    """The mean over all tokens of min(r A, clip(r) A).

        L = -1/T sum_i sum_t min(r_it A_i, clip(r_it, 1 - clip_low, 1 + clip_high) A_i)
        A_i = R_i - sum_j |o_j| R_j / sum_j |o_j|

    The paper makes one update a batch, in which every ratio is 1.
    """
    base = token_clip.objective(
        lambda step: {
            "advantage": advantage.length_weighted(step.reward_N, step.group_N, step.length_N)
        },
        weight.token_mean,
        low=clip_low,
        high=clip_high,
    )
    return replace(base, needs=frozenset({"length"}))

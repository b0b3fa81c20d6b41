"""MaxRL: advantages over the success rate, towards maximum likelihood (arXiv:2602.02710).

Elsewhere: SkyRL, prime-rl, its authors' code on verl.
Use: Many hard prompts with many samples each, if Pass@k matters; one update per batch.
"""

from dataclasses import replace

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, token_clip, weight


def build(
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    eps: float = 1e-6,
    aggregation: weight.Aggregation = "token-mean",
) -> Objective:
    """The mean over all tokens of min(r A, clip(r) A).

        L = -1/T sum_i sum_t min(r_it A_i, clip(r_it, 1 - clip_low, 1 + clip_high) A_i)
        A_i = (R_i - mean R) / (mean R + eps)

    One success of G has A = G - 1. Rewards must be at 0 or above.
    """
    advantage.check_eps(eps)
    base = token_clip.objective(
        lambda step: {"advantage": advantage.over_mean(step.reward_N, step.group_N, eps=eps)},
        weight.BY_NAME[aggregation],
        low=clip_low,
        high=clip_high,
    )
    return replace(base, least_reward=0.0)

"""DPPO-TV: a trust region in probability moved, not in ratios (arXiv:2602.04879, eq. 13).

Elsewhere: verl, SkyRL, prime-rl, its authors' code on verl.
Use: Samples of an engine that does not agree with the trainer, or of mixtures of experts: with
    `--old-logprobs rollout`.
"""

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, divergence, weight


def build(
    *, low: float = 0.15, high: float = 0.15, aggregation: weight.Aggregation = "constant"
) -> Objective:
    """The sum over tokens of M r A over a constant length, then the mean over completions.

        L = -1/N sum_i 1/L_max sum_t M_it r_it A_i,  A_i = R_i - mean R
        M = 0 where A > 0, r > 1 and D > high, or A < 0, r < 1 and D > low; else 1
        D = |pi(y_it) - pi_old(y_it)|

    L_max is the rollout's --max-new-tokens. The paper holds the policy to the one that sampled:
    `--old-logprobs rollout`.
    """
    return divergence.masked(
        lambda step: {"advantage": advantage.group_mean(step.reward_N, step.group_N)},
        weight.BY_NAME[aggregation],
        divergence.total_variation,
        low=low,
        high=high,
    )

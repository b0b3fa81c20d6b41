"""DPPO-KL: a trust region in the binary KL divergence of tokens (arXiv:2602.04879, eq. 14).

Elsewhere: verl, SkyRL, its authors' code on verl.
Use: Like `dppo-tv`, but holds rare tokens more tightly and likely ones more loosely.
"""

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, divergence, weight


def build(
    *, low: float = 0.05, high: float = 0.05, aggregation: weight.Aggregation = "constant"
) -> Objective:
    """The sum over tokens of M r A over a constant length, then the mean over completions.

        L = -1/N sum_i 1/L_max sum_t M_it r_it A_i,  A_i = R_i - mean R
        M = 0 where A > 0, r > 1 and D > high, or A < 0, r < 1 and D > low; else 1
        D = q log(q / p) + (1 - q) log((1 - q) / (1 - p)),  p = pi(y_it), q = pi_old(y_it)

    L_max is the rollout's --max-new-tokens. The paper holds the policy to the one that sampled:
    `--old-logprobs rollout`.
    """
    return divergence.masked(
        lambda step: {"advantage": advantage.group_mean(step.reward_N, step.group_N)},
        weight.BY_NAME[aggregation],
        divergence.kl,
        low=low,
        high=high,
    )

"""GRPO: group-normalised advantages, clipped token ratios (arXiv:2402.03300, eq. 3).

Elsewhere: every library here.
Use: The baseline for comparisons.
"""

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, token_clip, weight


def build(
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    eps: float = 1e-6,
    ddof: advantage.Ddof = 1,
    aggregation: weight.Aggregation = "seq-mean-token-mean",
) -> Objective:
    """Each completion's mean of min(r A, clip(r) A), then the mean over completions.

    L = -1/N sum_i 1/|o_i| sum_t min(r_it A_i, clip(r_it, 1 - clip_low, 1 + clip_high) A_i)
    A_i = (R_i - mean R) / (std R + eps)        (arXiv:2402.03300, eq. 3)
    """
    return token_clip.objective(
        advantage.normed(eps=eps, ddof=ddof),
        weight.BY_NAME[aggregation],
        low=clip_low,
        high=clip_high,
    )

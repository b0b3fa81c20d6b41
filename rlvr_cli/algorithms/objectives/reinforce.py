"""REINFORCE: the raw reward as advantage, clipped token ratios; for study.

Elsewhere: OpenRLHF, ROLL.
Use: For study: the effect of having no baseline.
"""

from dataclasses import replace

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import token_clip, weight


def build(*, clip_low: float = 0.2, clip_high: float = 0.2) -> Objective:
    """The mean over all tokens of min(r R, clip(r) R).

    L = -1/T sum_i sum_t min(r_it R_i, clip(r_it, 1 - clip_low, 1 + clip_high) R_i)
    """
    base = token_clip.objective(
        lambda step: {"advantage": step.reward_N}, weight.token_mean, low=clip_low, high=clip_high
    )
    return replace(base, group_relative=False)

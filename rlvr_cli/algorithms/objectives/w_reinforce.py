"""Weighted REINFORCE: correct completions pull a little, others push (arXiv:2506.01347).

Elsewhere: its authors' code on verl.
Use: Between `nsr` and REINFORCE: Pass@1 rises and Pass@k is kept.
"""

import math
from dataclasses import replace

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, token_clip, weight


def build(*, positive: float = 0.1, clip_low: float = 0.2, clip_high: float = 0.2) -> Objective:
    """The mean over all tokens of min(r A, clip(r) A).

    A is `positive` for a correct completion and -1 for another. There is no baseline.
    """
    if not 0 <= positive < math.inf:
        raise ValueError("positive must be at 0 or above, and finite")
    base = token_clip.objective(
        lambda step: {
            "advantage": advantage.signed(step.correct_N, positive=positive, negative=-1.0)
        },
        weight.token_mean,
        low=clip_low,
        high=clip_high,
    )
    return replace(base, needs=frozenset({"correct"}), group_relative=False)

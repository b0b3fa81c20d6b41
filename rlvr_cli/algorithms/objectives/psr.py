"""PSR: only correct completions, pulled up (arXiv:2506.01347).

Elsewhere: its authors' code on verl.
Use: For study: the effect of only the successes.
"""

from dataclasses import replace

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, token_clip, weight


def build(*, clip_low: float = 0.2, clip_high: float = 0.2) -> Objective:
    """The mean over the tokens of correct completions of min(r A, clip(r) A) with A = 1.

    The other completions leave the batch and its counts. There is no baseline.
    """
    base = token_clip.objective(
        lambda step: {
            "advantage": advantage.signed(step.correct_N, positive=1.0, negative=-1.0),
            "keep": step.correct_N,
        },
        weight.token_mean,
        low=clip_low,
        high=clip_high,
    )
    return replace(base, needs=frozenset({"correct"}), group_relative=False, sign=1)

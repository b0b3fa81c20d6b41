"""LUSPO: GSPO with each completion's loss times its length (arXiv:2602.05261).

Elsewhere: TRL, its authors' code on verl.
Use: Instead of `gspo`, if completions keep getting shorter.
"""

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, ratio, token_clip, weight


def build(
    *,
    clip_low: float = 2e-3,
    clip_high: float = 2.5e-3,
    eps: float = 1e-6,
    ddof: advantage.Ddof = 1,
) -> Objective:
    """The mean over completions of |o| min(s A, clip(s) A).

        L = -1/N sum_i |o_i| min(s_i A_i, clip(s_i, 1 - clip_low, 1 + clip_high) A_i)
        s_i = exp(mean_t d_it),  A_i = (R_i - mean R) / (std R + eps)

    A token's gradient does not depend on the length of its completion. It is larger than with
    `gspo` by that length, which the norm that gradients are clipped at and AdamW even out.
    """
    return token_clip.of_completions(
        advantage.normed(eps=eps, ddof=ddof),
        weight.seq_mean_token_sum,
        ratio.length_normalized,
        low=clip_low,
        high=clip_high,
    )

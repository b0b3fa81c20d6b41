"""GSPO: the clipped length-normalised ratio of the completion (arXiv:2507.18071, eq. 5).

Elsewhere: TRL, slime, NeMo-RL, OpenRLHF, AReaL, ms-swift; in verl and SkyRL it is `gspo-token`.
Use: Mixtures of experts, or noisy token ratios that a mean over the completion smooths.
"""

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, ratio, token_clip, weight


def build(
    *, clip_low: float = 3e-4, clip_high: float = 4e-4, eps: float = 1e-6, ddof: advantage.Ddof = 1
) -> Objective:
    """The mean over completions of min(s A, clip(s) A).

    L = -1/N sum_i min(s_i A_i, clip(s_i, 1 - clip_low, 1 + clip_high) A_i)
    s_i = exp(mean_t d_it),  A_i = (R_i - mean R) / (std R + eps)
    """
    return token_clip.of_completions(
        advantage.normed(eps=eps, ddof=ddof),
        weight.seq_mean_token_mean,
        ratio.length_normalized,
        low=clip_low,
        high=clip_high,
    )

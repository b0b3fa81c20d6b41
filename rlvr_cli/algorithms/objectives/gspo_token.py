"""GSPO-token: GSPO's ratio, with a gradient for each token (arXiv:2507.18071, eq. 13 and 14).

Elsewhere: verl and SkyRL (as `gspo`), TRL (experimental), ms-swift (`sequence_token`).
Use: Instead of `gspo`, together with token weights such as `+is-correction`.
"""

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, ratio, token_clip, weight


def build(
    *, clip_low: float = 3e-4, clip_high: float = 4e-4, eps: float = 1e-6, ddof: advantage.Ddof = 1
) -> Objective:
    """The mean over completions and their tokens of min(s_t A, clip(s_t) A).

        L = -1/N sum_i 1/|o_i| sum_t min(s_it A_i, clip(s_it, 1 - clip_low, 1 + clip_high) A_i)
        s_it = sg(exp(mean_t d_it)) pi(y_it) / sg(pi(y_it)),  A_i = (R_i - mean R) / (std R + eps)

    The gradient is that of `gspo` while all tokens of a completion weigh the same. A weight of
    single tokens, as `+is-correction` gives, stays with its token here and is averaged in `gspo`.
    """
    return token_clip.of_completions(
        advantage.normed(eps=eps, ddof=ddof),
        weight.seq_mean_token_mean,
        ratio.token_of_sequence,
        low=clip_low,
        high=clip_high,
    )

"""ASPO: the reciprocal of a success's token ratio as its weight (arXiv:2510.06062, eq. 3).

Elsewhere: its authors' code on verl.
Use: Several updates per batch, if entropy falls because likely tokens of successes gain most.
"""

from dataclasses import replace

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, ratio, surrogate, token_clip, weight


def build(
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float = 3.0,
    aggregation: weight.Aggregation = "seq-mean-token-mean",
    eps: float = 1e-6,
    ddof: advantage.Ddof = 1,
) -> Objective:
    """Each completion's mean of sg(w) A log pi, then the mean over completions.

        L = -1/N sum_i 1/|o_i| sum_t sg(w_it) A_i log pi(y_it)
        w = min(1 / r, dual_clip) where A_i > 0 and r <= 1 + clip_high
            min(r, dual_clip) where A_i < 0 and r >= 1 - clip_low, else 0
        A_i = (R_i - mean R) / (std R + eps)

    This has the gradient of what is computed; the loss itself is the mean of w A, as PPO's is of
    r A. A weight at `dual_clip` keeps its token's gradient. The paper does not print its value, the
    authors' code has 3; `inf` is the ablation without it.
    """
    if not dual_clip >= 1:
        raise ValueError("dual_clip must be at least 1")
    base = token_clip.objective(
        advantage.normed(eps=eps, ddof=ddof),
        weight.BY_NAME[aggregation],
        low=clip_low,
        high=clip_high,
    )
    return replace(
        base,
        surrogate=lambda batch, log_ratio_BT: surrogate.flipped(
            log_ratio_BT, batch.advantage_BT, low=clip_low, high=clip_high, cap=dual_clip
        ),
        clip=None,
        flat=lambda batch, log_ratio_BT: ratio.is_beyond(
            log_ratio_BT, batch.advantage_BT, low=clip_low, high=clip_high
        ),
    )

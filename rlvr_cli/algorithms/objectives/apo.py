"""APO: errors pulled back to the reference's likeliest tokens (Anchored Policy Optimization, 4).

Elsewhere: none found.
Use: Errors should not push the policy off the reference policy's likely tokens.
"""

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, anchor, token_clip, weight


def build(
    *,
    k: int = 8,
    lam: float = 1.05,
    beta: float = 0.1,
    z_floor: float = 1e-6,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    eps: float = 1e-6,
    ddof: advantage.Ddof = 1,
) -> Objective:
    """The mean over all tokens of min(r A, clip(r) A), with a rectified ratio where A < 0.

        r~ = lam r - beta r_anchor,  r_anchor = sum_S pi_theta / max(sum_S pi_ref, z_floor)

    S holds the reference policy's k likeliest tokens without the sampled one.
    A_i = (R_i - mean R) / (std R + eps). (Anchored Policy Optimization, eq. 8, 9 and 23)
    """
    base = token_clip.objective(
        advantage.normed(eps=eps, ddof=ddof),
        weight.token_mean,
        low=clip_low,
        high=clip_high,
    )
    return anchor.anchored(base, anchor.Anchor(k, lam, beta, z_floor))

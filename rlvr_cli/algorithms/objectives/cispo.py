"""CISPO: a capped ratio as weight, no token dropped (MiniMax-M1, arXiv:2506.13585, eq. 4).

Elsewhere: verl, TRL, slime, ms-swift, SkyRL, NeMo-RL, ROLL, open-instruct.
Use: Several updates per batch, if a clip would drop the rare tokens that redirect an argument.
"""

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, ratio as ratios, surrogate, weight

EARLIER = {"floor": 0.0}


def build(
    *, cap: float = 5.0, floor: float = 0.0, eps: float = 1e-6, ddof: advantage.Ddof = 1
) -> Objective:
    """The mean over all tokens of sg(clip(r, floor, cap)) A log pi.

        L = -1/T sum_i sum_t sg(clip(r_it, floor, cap)) A_i log pi(y_it)

    `cap` and `floor` are absolute: published runs cap the ratio at 1.2, 5 or 6. The paper has no
    floor; verl holds the ratio within 0.8 and 1.2. A_i = (R_i - mean R) / (std R + eps).
    """
    if not 0 <= floor <= cap or not cap > 0:
        raise ValueError("cap must be above 0, floor within 0 and cap")
    return Objective(
        advantage=advantage.normed(eps=eps, ddof=ddof),
        log_ratio=lambda batch: ratios.token(batch.logp_BT, batch.old_logp_BT, batch.mask_BT),
        surrogate=lambda batch, log_ratio_BT: surrogate.capped(
            log_ratio_BT, batch.logp_BT, batch.advantage_BT, floor=floor, cap=cap
        ),
        weight=weight.token_mean,
    )

"""GPG: the plain policy gradient, without ratio or clip (arXiv:2504.02546).

Elsewhere: verl (with another alpha).
Use: The plainest policy gradient, with one update per batch.
"""

from typing import Literal

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, ratio, surrogate, weight

EARLIER = {"alpha": "mixed"}


def build(*, alpha: Literal["mixed", "nonzero"] = "mixed") -> Objective:
    """The mean over all tokens of A log pi.

        L = -1/T sum_i sum_t A_i log pi(y_it)
        A_i = alpha (R_i - mean R),  alpha = B / (completions in groups of unequal rewards)

    `alpha=nonzero` divides by the completions whose reward is not 0 instead, as verl does.
    """
    scaled = {"mixed": advantage.mixed_share, "nonzero": advantage.nonzero_share}[alpha]
    return Objective(
        advantage=lambda step: {"advantage": scaled(step.reward_N, step.group_N)},
        log_ratio=lambda batch: ratio.token(batch.logp_BT, batch.old_logp_BT, batch.mask_BT),
        surrogate=lambda batch, _: surrogate.log_prob(batch.logp_BT, batch.advantage_BT),
        weight=weight.token_mean,
        ratio="none",
    )

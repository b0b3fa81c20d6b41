"""REINFORCE++ with baseline: group means, whitened over the batch (arXiv:2501.03262).

Elsewhere: verl, OpenRLHF, slime, NeMo-RL.
Use: Prompts of different difficulty, whose advantages should not each be scaled to 1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import Objective, Step
from rlvr_cli.algorithms.terms import advantage, penalty, token_clip, weight

if TYPE_CHECKING:
    from torch import Tensor

EARLIER = {"zero_equal": True}


def build(
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    kl: float = 1e-5,
    zero_equal: bool = False,
) -> Objective:
    """The mean over all tokens of min(r A, clip(r) A) - kl k2.

        L = -1/T sum_i sum_t (min(r_it A_i, clip(r_it) A_i) - kl (log pi - log pi_ref)^2 / 2)

    A is the reward minus the group's mean, standardised over all tokens of the rollout batch. That
    takes the batch's mean off groups of equal rewards too; with `zero_equal` they keep A = 0.
    REINFORCE++ itself is `reinforce:whiten=true+kl-in-reward`.
    """

    def estimate(step: Step) -> dict[str, Tensor]:
        if step.whitened_later:
            return {"advantage": advantage.group_mean(step.reward_N, step.group_N)}
        return {
            "advantage": advantage.whitened(
                step.reward_N, step.group_N, step.length_N, zero_equal=zero_equal
            )
        }

    base = token_clip.objective(estimate, weight.token_mean, low=clip_low, high=clip_high)
    base = replace(base, needs=frozenset({"length"}), whitens=not zero_equal)
    return penalty.with_kl(base, beta=kl, estimator="k2")

"""REINFORCE: the raw reward as advantage, clipped token ratios; for study.

Elsewhere: OpenRLHF, ROLL.
Use: For study: the effect of having no baseline.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import Objective, Step
from rlvr_cli.algorithms.terms import advantage, token_clip, weight

if TYPE_CHECKING:
    from torch import Tensor

EARLIER = {"whiten": False}


def build(*, clip_low: float = 0.2, clip_high: float = 0.2, whiten: bool = False) -> Objective:
    """The mean over all tokens of min(r R, clip(r) R).

    L = -1/T sum_i sum_t min(r_it R_i, clip(r_it, 1 - clip_low, 1 + clip_high) R_i)

    With `whiten` R is standardised over all tokens of the rollout batch, as in REINFORCE++
    (arXiv:2501.03262, eq. 10), which is `reinforce:whiten=true+kl-in-reward`.
    """

    def estimate(step: Step) -> dict[str, Tensor]:
        if whiten and not step.whitened_later:
            return {"advantage": advantage.standardised(step.reward_N, step.length_N)}
        return {"advantage": step.reward_N}

    base = token_clip.objective(estimate, weight.token_mean, low=clip_low, high=clip_high)
    needs = frozenset({"length"} if whiten else ())
    return replace(base, needs=needs, whitens=whiten, group_relative=False)

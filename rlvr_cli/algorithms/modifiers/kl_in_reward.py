"""A penalty on the divergence from the reference policy, taken off the reward (arXiv:1909.08593).

Elsewhere: verl (`use_kl_in_reward`), TRL's RLOO, OpenRLHF, NeMo-RL.
Use: To match baselines that put KL into the reward; each token is charged for the whole completion.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import COMPLETION_KL, Modifier, Objective, Step
from rlvr_cli.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor


def build(*, beta: float = 0.001) -> Modifier:
    """Takes beta times the sum over a completion of log pi_old - log pi_ref off its reward.

    Before the estimator, so that it is centred, whitened and clipped with the reward, and held
    constant over the updates of a step. (arXiv:1909.08593, eq. 2; k1 of the policy that the step
    begins with) Whether a group's rewards differ is judged before this.
    """
    if not beta > 0:
        raise ValueError("beta must be above 0")

    def modify(objective: Objective) -> Objective:
        if objective.least_reward > -math.inf or "parts" in objective.needs:
            raise UsageError(
                "kl-in-reward changes the sum of rewards and can make it negative, this objective "
                "divides by a prompt's mean reward, or reads each reward apart",
                "leave kl-in-reward out, or charge it in the loss with +kl",
            )

        def estimate(step: Step) -> dict[str, Tensor]:
            assert step.kl_N is not None, "declared in needs"
            charged_N = -beta * step.kl_N
            shaped = replace(step, reward_N=step.reward_N + charged_N)
            return objective.advantage(shaped) | {"kl_in_reward": charged_N}

        return replace(
            objective, advantage=estimate, columns=(*objective.columns, "kl_in_reward"),
            needs=objective.needs | {COMPLETION_KL}, is_alike=False,
        )  # fmt: skip

    return modify

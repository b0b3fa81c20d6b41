"""DAPO's soft penalty on completions near the length limit (arXiv:2503.14476, eq. 13).

Elsewhere: verl (its DAPO recipe), ms-swift, AReaL.
Use: Completions run into the length limit.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import Modifier, Objective, Step
from rlvr_cli.algorithms.terms import advantage
from rlvr_cli.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

EARLIER = {"longest": 0}


def build(*, buffer: int = 4096, longest: int = 0) -> Modifier:
    """Adds min(-(len - (L_max - buffer)) / buffer, 0) to the reward, before the estimator.

    L_max is `longest`, or with 0 the rollout's --max-new-tokens; `buffer` are its last tokens.
    Whether a group's rewards differ is judged before this.
    """
    if buffer < 1:
        raise ValueError("buffer must be at least 1 token")
    if longest < 0:
        raise ValueError("longest must be 0 or more tokens")

    def modify(objective: Objective) -> Objective:
        if objective.least_reward > -math.inf:
            raise UsageError(
                "overlong makes rewards negative, this objective divides by a prompt's mean reward",
                "leave overlong out, or add it to another objective, as in rloo+overlong",
            )

        if "correct" in objective.needs:
            raise UsageError(
                "overlong changes rewards, this objective reads verdicts alone",
                "leave overlong out, or add it to another objective, as in rloo+overlong",
            )
        if "parts" in objective.needs:
            raise UsageError(
                "overlong adds to the sum of rewards, this objective reads each of them apart",
                "leave overlong out, or add it to another objective, as in rloo+overlong",
            )

        def estimate(step: Step) -> dict[str, Tensor]:
            lost_N = advantage.overlong(step.length_N, longest=step.max_length, buffer=buffer)
            shaped = replace(step, reward_N=step.reward_N + lost_N)
            return objective.advantage(shaped) | {"overlong": lost_N}

        columns = (*objective.columns, "overlong")
        if longest and objective.longest not in (0, longest):
            raise ValueError(f"longest is {longest}, and {objective.longest} elsewhere")
        return replace(
            objective, advantage=estimate, columns=columns, longer_than=buffer,
            longest=longest or objective.longest, needs=objective.needs | {"length"},
        )  # fmt: skip

    return modify

"""DAPO's soft penalty on completions near the length limit (arXiv:2503.14476, eq. 13).

Elsewhere: verl (its DAPO recipe), ms-swift, AReaL.
Use: Completions run into the length limit.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import Modifier, Objective, Step
from rlvr_cli.algorithms.terms import advantage, shaping
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

    hint = "leave overlong out, or add it to another objective, as in rloo+overlong"

    def modify(objective: Objective) -> Objective:
        if objective.least_reward > -math.inf:
            raise UsageError(
                "overlong makes rewards negative, this objective divides by a prompt's mean reward",
                hint,
            )
        shaping.require_rewards(objective, "overlong", hint)
        if "parts" in objective.needs:
            raise UsageError(
                "overlong adds to the sum of rewards, but this objective reads each one separately",
                hint,
            )

        def lost(step: Step) -> Tensor:
            return advantage.overlong(step.length_N, longest=step.max_length, buffer=buffer)

        if longest and objective.longest not in (0, longest):
            raise UsageError(
                f"overlong's longest is {longest} tokens, the objective's {objective.longest}",
                f"write overlong:longest={objective.longest}, or leave one of the two out",
            )
        return replace(
            shaping.shaped(objective, "overlong", lost), longer_than=buffer,
            longest=longest or objective.longest, needs=objective.needs | {"length"},
        )  # fmt: skip

    return modify

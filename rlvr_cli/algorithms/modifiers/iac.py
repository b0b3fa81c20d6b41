"""IAC: more weight on successes of hard prompts (When Sharpening Becomes Collapse, 3.1).

Elsewhere: none found.
Use: Rare successes should count more.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import ADVANTAGE, Modifier, Objective, Step
from rlvr_cli.algorithms.terms import advantage
from rlvr_cli.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor


def build(*, alpha: float = 1.0) -> Modifier:
    """Advantages above 0 times (G - |S+|)^alpha, S+ the group's completions with A > 0.

    The others stay, and nothing is normalised again; 0^0 is 1. alpha = 0 changes nothing.
    """
    if not 0 <= alpha < math.inf:
        raise ValueError("alpha must be at 0 or above, and finite")

    def modify(objective: Objective) -> Objective:
        if objective.sign < 0:
            raise UsageError(
                "iac scales advantages above 0, this objective has none", "leave iac out"
            )
        if any(name == ADVANTAGE for name, _ in objective.token_columns):
            raise UsageError(
                "iac scales advantages of completions, this objective's are of tokens",
                "leave iac out, or add it to another objective, as in grpo+iac",
            )

        def estimate(step: Step) -> dict[str, Tensor]:
            columns = objective.advantage(step)
            return columns | {
                ADVANTAGE: advantage.inverse_success(columns[ADVANTAGE], step.group_N, alpha=alpha)
            }

        return replace(objective, advantage=estimate)

    return modify

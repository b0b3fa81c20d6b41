"""Changes of the rewards before the estimator. Shapes: N completions. Float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import Objective, Step
from rlvr_cli.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor


def shaped(objective: Objective, name: str, change: Callable[[Step], Tensor]) -> Objective:
    """The objective on R_i + change_i, where `change` [N] is stored in the column `name`."""

    def estimate(step: Step) -> dict[str, Tensor]:
        change_N = change(step)
        changed = replace(step, reward_N=step.reward_N + change_N)
        return objective.advantage(changed) | {name: change_N}

    return replace(objective, advantage=estimate, columns=(*objective.columns, name))


def require_rewards(objective: Objective, modifier: str, hint: str) -> None:
    """An error for an objective that does not read rewards: their change would have no effect."""
    if "correct" in objective.needs:
        raise UsageError(
            f"{modifier} changes rewards, but this objective reads only verdicts", hint
        )

"""GRPO-N and the like: only completions with A < 0 push (arXiv:2510.04028, sec. 4.1 and B.5).

Elsewhere: none found.
Use: To keep Pass@k at large k; groups without success give nothing, as in GRPO.
"""

from dataclasses import replace

from rlvr_cli.algorithms.objective import Modifier, Objective
from rlvr_cli.errors import UsageError


def build() -> Modifier:
    """The gain times 1[A < 0]; counts and penalties stay as they are.

    A group whose completions are all wrong gives 0, unlike with NSR, where the objective has A = 0
    for equal rewards.
    """

    def modify(objective: Objective) -> Objective:
        if objective.sign:
            side = "above" if objective.sign > 0 else "below"
            raise UsageError(
                f"negative-only chooses by sign, but this objective only has advantages {side} 0",
                "leave negative-only out",
            )
        if objective.positives == "log-prob":
            raise UsageError(
                "negative-only drops the gains of A > 0, which up is for",
                "leave one of the two out",
            )
        return replace(
            objective,
            positives="none",
            factors=(*objective.factors, lambda batch: batch.advantage_BT < 0),
        )

    return modify

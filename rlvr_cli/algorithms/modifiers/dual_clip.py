"""Dual clip: bounds how much a likelier error may cost (arXiv:1912.09729, eq. 5).

Elsewhere: verl, OpenRLHF, SkyRL, NeMo-RL, AReaL.
Use: Errors that became much likelier give gradients that are too large.
"""

from dataclasses import replace

from rlvr_cli.algorithms.objective import Modifier, Objective
from rlvr_cli.algorithms.terms import token_clip
from rlvr_cli.errors import UsageError


def build(*, c: float = 3.0) -> Modifier:
    """The gain of A < 0 is at least c A. It replaces the objective's own dual clip."""
    bound = token_clip.dual(c)

    def modify(objective: Objective) -> Objective:
        if objective.clip is None:
            raise UsageError(
                "dual-clip bounds PPO's clipped ratio, this objective has another surrogate",
                "leave dual-clip out",
            )
        return replace(objective, dual_clip=bound)

    return modify

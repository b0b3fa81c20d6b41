"""A bonus on the policy's token entropy (in two-stage's runs, arXiv:2510.04028, C.2).

Elsewhere: verl, TRL, OpenRLHF, SkyRL and others.
Use: Entropy falls early.
"""

import math

from rlvr_cli.algorithms.objective import Modifier, Objective


def build(*, coef: float = 1e-4) -> Modifier:
    """Takes coef times the entropy of the policy's next-token distribution off a token's cost."""
    if not math.isfinite(coef):
        raise ValueError("coef must be finite")

    def modify(objective: Objective) -> Objective:
        return objective.with_penalty(lambda batch: -coef * batch.entropy_BT, "entropy")

    return modify

"""A penalty on the divergence from the reference policy (GRPO, arXiv:2402.03300, eq. 4).

Elsewhere: every library here.
Use: The policy shall stay near the reference policy.
"""

from typing import Literal

from rlvr_cli.algorithms.objective import Modifier, Objective
from rlvr_cli.algorithms.terms import penalty
from rlvr_cli.errors import UsageError


def build(
    *,
    beta: float = 0.001,
    estimator: penalty.Estimator = "k3",
    on: Literal["all", "errors"] = "all",
) -> Modifier:
    """Adds beta times an estimate of KL(pi_theta || pi_ref) to a token's cost.

    `on=errors` charges completions with A < 0 only (GRPO-KL error-only, a baseline of APO).
    """

    def modify(objective: Objective) -> Objective:
        if "ref_logp" in objective.needs:
            raise UsageError(
                "this objective charges a KL penalty of its own, kl would charge it twice",
                "give the objective kl=0, or choose its own with kl=...",
            )
        return penalty.with_kl(objective, beta=beta, estimator=estimator, errors=on == "errors")

    return modify

"""A penalty on the divergence from the reference policy (GRPO, arXiv:2402.03300, eq. 4).

Elsewhere: every library here.
Use: The policy should stay near the reference policy.
"""

from typing import Literal

from rlvr_cli.algorithms.objective import Modifier, Objective
from rlvr_cli.algorithms.terms import penalty, weight
from rlvr_cli.errors import UsageError

EARLIER = {"unbiased": "false", "aggregation": "objective"}


def build(
    *,
    beta: float = 0.001,
    estimator: penalty.Estimator = "k3",
    on: Literal["all", "errors"] = "all",
    unbiased: Literal["auto", "true", "false"] = "auto",
    aggregation: Literal[
        "objective", "token-mean", "seq-mean-token-mean", "seq-mean-token-sum"
    ] = "objective",
) -> Modifier:
    """Adds beta times an estimate of KL(pi_theta || pi_ref) to a token's cost.

        k1 = -x,  k2 = x^2 / 2,  k3 = e^x - x - 1,  x = log pi_ref - log pi_theta

    `unbiased` multiplies by pi_theta / pi_old: then the gradient is that of the divergence after
    drift too. As it stands the gradient of k1 averages to 0, so that it regularises nothing: `auto`
    is true for k1 and false for k2 and k3. `on=errors` charges completions with A < 0 only (GRPO-KL
    error-only, a baseline of APO). `aggregation` is the objective's own, or another.
    """
    penalty.check_beta(beta)
    is_unbiased = estimator == "k1" if unbiased == "auto" else unbiased == "true"
    own = None if aggregation == "objective" else weight.BY_NAME[aggregation]

    def modify(objective: Objective) -> Objective:
        if "ref_logp" in objective.needs:
            raise UsageError(
                "this objective charges a KL penalty of its own, kl would charge it twice",
                "give the objective kl=0, or choose its own with kl=...",
            )
        return penalty.with_kl(
            objective,
            beta=beta,
            estimator=estimator,
            errors=on == "errors",
            unbiased=is_unbiased,
            weight=own,
        )

    return modify

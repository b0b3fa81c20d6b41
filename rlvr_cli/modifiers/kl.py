"""A penalty on the divergence from the reference policy."""

from typing import Literal

import torch

from rlvr_cli.objective import Modifier, Objective, TokenBatch
from rlvr_cli.parts import penalty


def build(
    *,
    beta: float = 0.001,
    estimator: Literal["k1", "k2", "k3"] = "k3",
    on: Literal["all", "errors"] = "all",
) -> Modifier:
    """Adds beta times an estimate of KL(pi_theta || pi_ref) to a token's cost.

    `on=errors` charges completions with A < 0 only (GRPO-KL error-only, a baseline of APO).
    """
    estimate = {"k1": penalty.k1, "k2": penalty.k2, "k3": penalty.k3}[estimator]

    def cost(batch: TokenBatch) -> torch.Tensor:
        assert batch.ref_logp_BT is not None, "declared in needs"
        cost_BT = beta * estimate(batch.logp_BT, batch.ref_logp_BT)
        if on == "all":
            return cost_BT
        return torch.where(batch.advantage_B[:, None] < 0, cost_BT, 0.0)

    def modify(objective: Objective) -> Objective:
        return objective.with_penalty(cost, "ref_logp")

    return modify

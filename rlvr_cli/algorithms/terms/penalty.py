"""Costs of tokens, to be minimised. Shapes: B rows, T completion tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rlvr_cli.algorithms.objective import Objective, TokenBatch
from rlvr_cli.algorithms.terms import ratio
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor

Estimator = Literal["k1", "k2", "k3"]


def k1(logp_BT: Tensor, ref_logp_BT: Tensor) -> Tensor:
    """The log ratio to the reference policy; unbiased, of either sign.

    k1 = log pi_theta - log pi_ref
    """
    return logp_BT - ref_logp_BT


def k2(logp_BT: Tensor, ref_logp_BT: Tensor) -> Tensor:
    """Half the squared log ratio to the reference policy.

    k2 = (log pi_theta - log pi_ref)^2 / 2
    """
    return (logp_BT - ref_logp_BT).square() / 2


def k3(logp_BT: Tensor, ref_logp_BT: Tensor) -> Tensor:
    """The non-negative estimate of KL(pi_theta || pi_ref).

    k3 = e^x - x - 1,  x = log pi_ref - log pi_theta        (GRPO, arXiv:2402.03300, eq. 4)
    """
    x_BT = ratio.clamp(ref_logp_BT - logp_BT)
    return torch.expm1(x_BT) - x_BT


def with_kl(
    objective: Objective, *, beta: float, estimator: Estimator, errors: bool = False
) -> Objective:
    """The objective that charges beta times an estimate of KL(pi_theta || pi_ref).

    With `errors` completions with A < 0 only. A beta of 0 charges, and needs, nothing.
    """
    if beta == 0:
        return objective
    estimate = {"k1": k1, "k2": k2, "k3": k3}[estimator]

    def cost(batch: TokenBatch) -> Tensor:
        assert batch.ref_logp_BT is not None, "declared in needs"
        cost_BT = beta * estimate(batch.logp_BT, batch.ref_logp_BT)
        if not errors:
            return cost_BT
        return torch.where(batch.advantage_BT < 0, cost_BT, 0.0)

    return objective.with_penalty(cost, "ref_logp")

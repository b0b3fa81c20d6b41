"""Costs of tokens, to be minimised. Shapes: B rows, T completion tokens.

Which gradient an estimate of KL(pi_theta || pi_ref) gives is another question than its mean. Over
tokens y of pi_theta, with x = log pi_ref - log pi_theta:

    gradient of the divergence     E[-x grad log pi]
    k1                             E[grad log pi] = 0: it regularises nothing
    k2                             E[-x grad log pi]
    k3                             E[(1 - e^x) grad log pi], that of KL(pi_ref || pi_theta)

`reweighted` gives all three the first, over tokens of the old policy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from rlvr_cli.algorithms.objective import Objective, TokenBatch, Weight
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


_BY_NAME = {"k1": k1, "k2": k2, "k3": k3}


def reweighted(
    estimator: Estimator, logp_BT: Tensor, old_logp_BT: Tensor, ref_logp_BT: Tensor
) -> Tensor:
    """An estimate at a token of the old policy, times its ratio r = pi_theta / pi_old.

    r k1 and r k3 with the ratio's gradient, sg(r) k2 without: the gradient of each is that of
    KL(pi_theta || pi_ref) in expectation. (DeepSeek-V3.2, arXiv:2512.02556, has k3)
    """
    r_BT = ratio.clamp(logp_BT - old_logp_BT).exp()
    r_BT = r_BT.detach() if estimator == "k2" else r_BT
    return r_BT * _BY_NAME[estimator](logp_BT, ref_logp_BT)


def check_beta(beta: float) -> None:
    """ValueError for a penalty that would drive the policy away, or is infinite."""
    if not 0 <= beta < math.inf:
        raise ValueError("the coefficient of a KL penalty must be at 0 or above, and finite")


def with_kl(
    objective: Objective,
    *,
    beta: float,
    estimator: Estimator,
    errors: bool = False,
    unbiased: bool = False,
    weight: Weight | None = None,
) -> Objective:
    """The objective that charges beta times an estimate of KL(pi_theta || pi_ref).

    With `errors` completions with A < 0 only, `unbiased` reweighted by the ratio, and with a
    `weight` of its own. A beta of 0 charges, and needs, nothing.
    """
    check_beta(beta)
    if beta == 0:
        return objective

    def cost(batch: TokenBatch) -> Tensor:
        assert batch.ref_logp_BT is not None, "declared in needs"
        if unbiased:
            old_BT, ref_BT = batch.old_logp_BT, batch.ref_logp_BT
            cost_BT = beta * reweighted(estimator, batch.logp_BT, old_BT, ref_BT)
        else:
            cost_BT = beta * _BY_NAME[estimator](batch.logp_BT, batch.ref_logp_BT)
        if not errors:
            return cost_BT
        return torch.where(batch.advantage_BT < 0, cost_BT, 0.0)

    return objective.with_penalty(cost, "ref_logp", weight=weight)

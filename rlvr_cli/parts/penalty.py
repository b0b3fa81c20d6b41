"""Costs of tokens, to be minimised. Shapes: B rows, T completion tokens."""

import torch
from torch import Tensor

from rlvr_cli.parts import ratio


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

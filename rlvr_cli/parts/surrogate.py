"""Gains of tokens, to be maximised. Shapes: B rows, T completion tokens."""

import torch
from torch import Tensor

from rlvr_cli.parts import ratio


def clipped(log_ratio_BT: Tensor, advantage_B1: Tensor, *, low: float, high: float) -> Tensor:
    """The lesser of the ratio's and the clipped ratio's share of the advantage.

    gain = min(r A, clip(r, 1 - low, 1 + high) A)        (PPO, arXiv:1707.06347, eq. 7)
    """
    r_BT = ratio.clamp(log_ratio_BT).exp()
    return torch.minimum(r_BT * advantage_B1, r_BT.clamp(1 - low, 1 + high) * advantage_B1)


def trust_region(log_ratio_BT: Tensor, advantage_B1: Tensor) -> Tensor:
    """The ratio times what is left of the advantage beyond the log ratio, held constant.

        gain = rho (A - sg(log rho))        (QUATRO, arXiv:2602.04620, eq. 14)

    Its gradient is rho (A - log rho) grad log pi: 0 once log rho has reached A.
    """
    log_rho_BT = ratio.clamp(log_ratio_BT)
    return log_rho_BT.exp() * (advantage_B1 - log_rho_BT.detach())

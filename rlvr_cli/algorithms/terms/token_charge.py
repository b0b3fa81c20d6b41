"""What a token's advantage loses for what follows it. Shapes: K tokens. Float64."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import Tokens
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor


def divergence_ahead(tokens: Tokens) -> Tensor:
    """The divergence from the reference policy of each token and of those after it, in nats.

        sum_{s >= t} (log pi_old(y_s) - log pi_ref(y_s))

    (REINFORCE++, arXiv:2501.03262, eq. 8)
    """
    gap_K = tokens.stored["old_logp"] - tokens.stored["ref_logp"]
    ahead_K = gap_K.flip(0).cumsum(0).flip(0)  # of this token and of all rows after its own
    starts_K = tokens.place_K == 0
    later_R = torch.cat([ahead_K[starts_K][1:], ahead_K.new_zeros(1)])
    return ahead_K - later_R[starts_K.cumsum(0) - 1]

"""APO's anchor: what pulls a policy back to the reference policy's likeliest tokens.

Shapes: B rows, T completion tokens. The anchor set S of a token is the reference policy's K
likeliest tokens without the sampled one. (Anchored Policy Optimization, sec. 4)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import Objective, TokenBatch
from rlvr_cli.algorithms.terms import ratio, surrogate
from rlvr_cli.errors import UsageError
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor

FLAT = "anchor_flat"


@dataclass(frozen=True)
class Anchor:
    """K, push (lam), pull (beta) and the floor of the reference policy's mass on S."""

    k: int
    lam: float
    beta: float
    z_floor: float

    def __post_init__(self) -> None:
        if self.k < 1 or not (
            0 < self.lam < math.inf and 0 < self.z_floor < math.inf and 0 <= self.beta < math.inf
        ):
            raise ValueError(
                "k must be at least 1, lam and z_floor above 0, beta at 0 or above, and all finite"
            )


def rectified(batch: TokenBatch, log_ratio_BT: Tensor, anchor: Anchor) -> Tensor:
    """The ratio with the push on the sampled token and the pull of the anchor set.

        r~ = lam r - beta r_anchor,  r_anchor = sum_S pi_theta / max(sum_S pi_ref, z_floor)

    r_anchor is 0 where S is empty. (eq. 8 and 9)
    """
    r_BT = ratio.clamp(log_ratio_BT).exp()
    if not anchor.beta:
        return anchor.lam * r_BT
    assert batch.anchor_logp_BT is not None and batch.anchor_ref_logp_BT is not None
    mass_BT = torch.where(batch.mask_BT, batch.anchor_logp_BT, -torch.inf).exp()
    z_BT = torch.where(batch.mask_BT, batch.anchor_ref_logp_BT, 0.0).exp().clamp(min=anchor.z_floor)
    return anchor.lam * r_BT - anchor.beta * mass_BT / z_BT


def anchored(base: Objective, anchor: Anchor) -> Objective:
    """The objective with the rectified ratio where A < 0, between the base's own clip bounds.

    gain = min(r~ A, clip(r~, 1 - low, 1 + high) A)        (eq. 23)

    The share of negative tokens that are flat because of the anchor alone is a metric.
    """
    low, high = base.clip or (None, None)
    if (
        base.ratio != "token"
        or base.preserves_clipped
        or not isinstance(low, int | float)
        or not isinstance(high, int | float)
    ):
        raise UsageError(
            "an anchor rectifies the clipped ratio of tokens, which this objective does not have",
            "add it to grpo, dapo, dr-grpo, rloo or reinforce-pp, as in dapo+anchor",
        )
    if base.sign > 0:
        raise UsageError(
            "an anchor acts where the advantage is below 0, this objective leaves no such rows",
            "leave the anchor out",
        )
    if any(name == FLAT for name, _ in base.shares):
        raise UsageError("this objective has an anchor of its own", "set that one's options")

    def gain(batch: TokenBatch, log_ratio_BT: Tensor) -> Tensor:
        advantage_BT = batch.advantage_BT
        r_BT = rectified(batch, log_ratio_BT, anchor)
        pulled_BT = surrogate.pessimistic(r_BT, advantage_BT, low=low, high=high)
        return torch.where(advantage_BT < 0, pulled_BT, base.surrogate(batch, log_ratio_BT))

    def flat(batch: TokenBatch, log_ratio_BT: Tensor) -> tuple[Tensor, Tensor]:
        r_BT = rectified(batch, log_ratio_BT, anchor)
        pushed_BT = anchor.lam * ratio.clamp(log_ratio_BT).exp()
        negative_BT = (batch.advantage_BT < 0).expand_as(batch.mask_BT)
        return (r_BT < 1 - low) & (pushed_BT >= 1 - low), negative_BT

    needs = base.needs | ({"ref_topk"} if anchor.beta else set())
    shares = (*base.shares, (FLAT, flat))
    return replace(
        base, surrogate=gain, needs=needs, top_k=anchor.k if anchor.beta else 0, shares=shares
    )

"""PPO's clipped token ratio, which most objectives share; they differ in estimator and weight."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import Objective, Step, Totals
from rlvr_cli.algorithms.terms import ratio, surrogate

if TYPE_CHECKING:
    from torch import Tensor


def objective(
    advantage: Callable[[Step], dict[str, Tensor]],
    weight: Callable[[Tensor, Totals], Tensor],
    *,
    low: float,
    high: float,
) -> Objective:
    """min(r_t A, clip(r_t, 1 - low, 1 + high) A) under an estimator and a weight."""
    if not (0 <= low <= 1 and high >= 0):
        raise ValueError("clip_low must be from 0 to 1, clip_high 0 or above")
    return Objective(
        advantage=advantage,
        log_ratio=lambda batch: ratio.token(batch.logp_BT, batch.old_logp_BT, batch.mask_BT),
        surrogate=lambda batch, log_ratio_BT: surrogate.clipped(
            log_ratio_BT, batch.advantage_BT, low=low, high=high
        ),
        weight=weight,
        clip=(low, high),
    )


def of_completions(
    advantage: Callable[[Step], dict[str, Tensor]],
    weight: Callable[[Tensor, Totals], Tensor],
    log_ratio: Callable[[Tensor, Tensor, Tensor], Tensor],
    *,
    low: float,
    high: float,
) -> Objective:
    """The same clip of a completion's ratio, whose log is given at each of its tokens.

    `log_ratio` makes it of log-probs, old log-probs and the mask, [B, T] each.
    """
    return replace(
        objective(advantage, weight, low=low, high=high),
        log_ratio=lambda batch: log_ratio(batch.logp_BT, batch.old_logp_BT, batch.mask_BT),
        ratio="sequence",
    )


def dual(c: float) -> float:
    """The factor of a dual clip; an error where it would cut the range that the clip allows."""
    if not 1 <= c < math.inf:
        raise ValueError("the dual clip must be at least 1, and finite")
    return c

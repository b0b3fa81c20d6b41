"""Corrects for the gap between the rollout engine's and the trainer's log-probs (TIS, IcePop).

Elsewhere: verl, TRL, slime, SkyRL, ms-swift, AReaL, with other kinds.
Use: The rollout engine's log-probs are not the trainer's: see `sampler_gap`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from rlvr_cli.algorithms.objective import Modifier, Objective, TokenBatch
from rlvr_cli.algorithms.terms import correction
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor


def build(*, kind: Literal["tis", "icepop", "sequence-mask"] = "tis", cap: float = 2.0) -> Modifier:
    """The gain times a constant weight from w_t = pi_old(y_t) / pi_behaviour(y_t).

        tis            min(w_t, cap)
        icepop         w_t where 1/cap <= w_t <= cap, else 0
        sequence-mask  prod_t w_t at every token where it is at most cap, else 0

    Counts and penalties stay as they are. The share of tokens that lose weight to the cap is a
    metric.
    """
    if not 1 <= cap < math.inf:
        raise ValueError("cap must be at least 1, and finite")
    weigh = {
        "tis": correction.truncated,
        "icepop": correction.masked,
        "sequence-mask": correction.sequence_masked,
    }[kind]

    def drift(batch: TokenBatch) -> Tensor:
        assert batch.behaviour_logp_BT is not None, "declared in needs"
        return correction.drift(batch.old_logp_BT, batch.behaviour_logp_BT, batch.mask_BT)

    def factor(batch: TokenBatch) -> Tensor:
        return weigh(drift(batch), cap=cap)

    def cut(batch: TokenBatch, _: Tensor) -> tuple[Tensor, Tensor]:
        drift_BT = drift(batch)
        full_BT = weigh(drift_BT, cap=math.inf)
        return weigh(drift_BT, cap=cap) != full_BT, torch.ones_like(batch.mask_BT)

    def modify(objective: Objective) -> Objective:
        return replace(
            objective,
            needs=objective.needs | {"behaviour_logp"},
            factors=(*objective.factors, factor),
            shares=(*objective.shares, ("correction_cut", cut)),
        )

    return modify

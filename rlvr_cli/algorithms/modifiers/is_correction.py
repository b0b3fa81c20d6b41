"""Corrects for the gap between the rollout engine's and the trainer's log-probs (TIS, IcePop).

Elsewhere: verl, TRL, slime, SkyRL, ms-swift, AReaL, with other kinds.
Use: The rollout engine's log-probs differ from the trainer's: see `sampler_gap`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from rlvr_cli.algorithms.objective import Cost, Count, Modifier, Objective, TokenBatch
from rlvr_cli.algorithms.terms import correction
from rlvr_cli.errors import UsageError
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor

EARLIER = {"low": 0.0, "normalize": False}
_MEAN = "correction_mean"
_LITTLE = 0.01  # a weight that is as good as none
_WEIGHTS = {
    "tis": correction.truncated,
    "icepop": correction.masked,
    "sequence-tis": correction.sequence_truncated,
    "sequence-mask": correction.sequence_masked,
}


def build(
    *,
    kind: Literal["tis", "icepop", "sequence-tis", "sequence-mask"] = "tis",
    cap: float = 2.0,
    low: float = 0.0,
    normalize: bool = False,
) -> Modifier:
    """The gain times a constant weight from w_t = pi_old(y_t) / pi_behaviour(y_t), w = prod_t w_t.

        tis            w_t, at most cap and at least low
        icepop         w_t where low <= w_t <= cap, else 0; a low of 0 is 1/cap
        sequence-tis   w at every token, at most cap and at least low
        sequence-mask  w at every token where low <= w <= cap, else 0

    With `normalize`, over the mean weight of the optimizer batch: of its tokens, or of its
    completions where the weight is theirs. Counts and penalties stay as they are. Metrics are the
    shares of tokens that lose weight to the cap or to low, and of those that weigh below 0.01.
    """
    if not 1 <= cap < math.inf:
        raise ValueError("cap must be at least 1, and finite")
    if not 0 <= low <= 1:
        raise ValueError("low must be from 0 to 1")
    low = low or (1 / cap if kind == "icepop" else 0.0)

    def weight(batch: TokenBatch) -> Tensor:
        return _WEIGHTS[kind](_drift(batch), low=low, cap=cap)

    def free(batch: TokenBatch) -> Tensor:
        return _WEIGHTS[kind](_drift(batch), low=0.0, cap=math.inf)

    def factor(batch: TokenBatch) -> Tensor:
        return weight(batch) / batch.columns[_MEAN][:, None] if normalize else weight(batch)

    def mean(batch: TokenBatch) -> float:
        is_sequence = kind.startswith("sequence")
        return correction.mean_weight(
            weight(batch), batch.mask_BT, of="completions" if is_sequence else "tokens"
        )

    def modify(objective: Objective) -> Objective:
        _refuse_without_gap(objective)
        return replace(
            objective,
            needs=objective.needs | {"behaviour_logp"},
            factors=(*objective.factors, factor),
            shares=(*objective.shares, *_shares(weight, free)),
            batch_columns=(*objective.batch_columns, *([(_MEAN, mean)] if normalize else [])),
        )

    return modify


def _drift(batch: TokenBatch) -> Tensor:
    assert batch.behaviour_logp_BT is not None, "declared in needs"
    return correction.drift(batch.old_logp_BT, batch.behaviour_logp_BT, batch.mask_BT)


def _shares(weight: Cost, free: Cost) -> tuple[tuple[str, Count], ...]:
    """Of tokens: those whose weight is not the `free` one, and those that weigh next to nothing."""

    def cut(batch: TokenBatch, _: Tensor) -> tuple[Tensor, Tensor]:
        return weight(batch) != free(batch), torch.ones_like(batch.mask_BT)

    def lost(batch: TokenBatch, _: Tensor) -> tuple[Tensor, Tensor]:
        return weight(batch) < _LITTLE, torch.ones_like(batch.mask_BT)

    return ("correction_cut", cut), ("correction_lost", lost)


def _refuse_without_gap(objective: Objective) -> None:
    if objective.against == "behaviour":
        raise UsageError(
            "is-correction corrects for the policy that sampled, and this objective's ratio is "
            "to that policy already",
            "leave is-correction out",
        )

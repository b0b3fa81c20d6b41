"""UP: successes are pulled up by log-prob, without ratio or clip (arXiv:2607.06987, eq. 15).

Elsewhere: its authors' code on verl, TRL (a pull request).
Use: Several updates per batch, if entropy falls and clipped tokens are rare ones of successes:
    UP-GRPO is `grpo+up`, UP-DAPO `dapo+up`, UP-GSPO `gspo+up`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import Modifier, Objective, TokenBatch
from rlvr_cli.algorithms.terms import surrogate
from rlvr_cli.errors import UsageError
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor


def build() -> Modifier:
    """The gain is A log pi(y_t) where A > 0, and the objective's own elsewhere.

    Its gradient is that at a ratio of 1, whatever the ratio is. The upper clip has no effect then;
    the lower one and a dual clip hold errors as before. Counts and penalties stay as they are.
    """

    def modify(objective: Objective) -> Objective:
        if objective.clip is None:
            raise UsageError(
                "up takes the clip off successes, this objective has none",
                "add it to grpo, dapo or gspo, as in dapo+up",
            )
        if objective.sign < 0:
            raise UsageError(
                "up is for advantages above 0, this objective has none", "leave up out"
            )
        if objective.positives == "none":
            raise UsageError(
                "up is for the gains of A > 0, which negative-only drops",
                "leave one of the two out",
            )
        low, _ = objective.clip

        def gain(batch: TokenBatch, log_ratio_BT: Tensor) -> Tensor:
            pulled_BT = surrogate.log_prob(batch.logp_BT, batch.advantage_BT)
            own_BT = objective.surrogate(batch, log_ratio_BT)
            return torch.where(batch.advantage_BT > 0, pulled_BT, own_BT)

        return replace(objective, surrogate=gain, clip=(low, math.inf), positives="log-prob")

    return modify

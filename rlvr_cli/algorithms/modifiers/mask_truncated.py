"""Leaves out completions that were cut off at the limit (DAPO, arXiv:2503.14476, sec. 3.4).

Elsewhere: verl and DAPO's code (overlong filtering), TRL (`mask_truncated_completions`), OpenRLHF.
Use: The length limit cuts off many completions that might have reached an answer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import ADVANTAGE, KEEP, Modifier, Objective, Step
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor


def build() -> Modifier:
    """A completion cut at --max-new-tokens is not trained on, and leaves the counts of the batch.

    Its reward stays in the statistics of its group.
    """

    def modify(objective: Objective) -> Objective:
        def estimate(step: Step) -> dict[str, Tensor]:
            assert step.truncated_N is not None, "declared in needs"
            columns = objective.advantage(step)
            everything_N = torch.ones_like(columns[ADVANTAGE], dtype=torch.bool)
            keep_N = columns.get(KEEP, everything_N)
            return columns | {KEEP: keep_N & ~step.truncated_N}

        return replace(objective, advantage=estimate, needs=objective.needs | {"truncated"})

    return modify

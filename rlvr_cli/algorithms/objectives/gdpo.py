"""GDPO: each reward of a sum is normalised on its own (arXiv:2601.05242).

Elsewhere: TRL, its authors' code on TRL and on verl.
Use: A reward that is a sum of different parts, one of which would dominate the others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import Objective, Step
from rlvr_cli.algorithms.terms import advantage, token_clip, weight

if TYPE_CHECKING:
    from torch import Tensor


def build(
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    eps: float = 1e-4,
    ddof: advantage.Ddof = 1,
    aggregation: weight.Aggregation = "seq-mean-token-mean",
) -> Objective:
    """GRPO's loss, with each reward normalised separately before they are added.

        S_i = sum_n w_n (R_ni - mean R_n) / (std R_n + eps)
        A_i = S_i / (std S + eps)

    Mean and deviation of R_n are the group's, that of S the batch's, whose mean is 0. The rewards
    R_n and weights w_n are those of the verifier, as in `--verifier 0.9*math+0.1*format`. Whether a
    group's rewards differ is judged by their sum, as by --max-draws and --drop-uninformative.
    """

    advantage.check_eps(eps)

    def estimate(step: Step) -> dict[str, Tensor]:
        parts = [(part.weight, part.reward_N) for part in step.parts] or [(1.0, step.reward_N)]
        return {"advantage": advantage.decoupled(parts, step.group_N, eps=eps, ddof=ddof)}

    base = token_clip.objective(
        estimate,
        weight.BY_NAME[aggregation],
        low=clip_low,
        high=clip_high,
    )
    return replace(base, needs=frozenset({"parts"}))

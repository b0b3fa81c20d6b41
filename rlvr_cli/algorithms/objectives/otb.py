"""OTB: a baseline for each token, weighted by what came before it (arXiv:2602.07078).

Elsewhere: verl.
Use: Long completions, if a single baseline for the completion leaves much variance; one update per
    batch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import ADVANTAGE, Objective, Tokens
from rlvr_cli.algorithms.terms import advantage, token_baseline, token_clip, weight

if TYPE_CHECKING:
    from torch import Tensor


def build(*, clip_low: float = 0.2, clip_high: float = 0.2, eps: float = 1e-8) -> Objective:
    """The mean over all tokens of min(r A, clip(r) A), with an advantage for each token.

        A_it = R_i - sum_j W_jt R_j / (sum_j W_jt + eps), over the group's j with a token t
        W_jt = sum_{s <= t} (1 - 2 pi_old(y_js) + sum_v pi_old(v)^2)

    Computed from R_i less the group's mean, which leaves A as it is and makes it 0 where all are
    equal. If only one completion is that long, its A is 0.
    """

    advantage.check_eps(eps)

    def rule(tokens: Tokens) -> Tensor:
        return token_baseline.weighted(tokens, token_baseline.energy(tokens), eps=eps)

    base = token_clip.objective(
        lambda step: {"advantage": advantage.group_mean(step.reward_N, step.group_N)},
        weight.token_mean,
        low=clip_low,
        high=clip_high,
    )
    return replace(
        base,
        needs=frozenset({"stored_old_logp", "stored_collision"}),
        token_columns=((ADVANTAGE, rule),),
    )

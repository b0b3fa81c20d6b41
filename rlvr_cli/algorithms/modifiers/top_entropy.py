"""Top entropy: gradient only at the tokens of highest entropy (80/20, arXiv:2506.01939).

Elsewhere: TRL (`top_entropy_quantile`).
Use: Long chains of thought of larger models: trains only the forking tokens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import Modifier, Objective, TokenBatch, Tokens
from rlvr_cli.algorithms.terms import ranking

if TYPE_CHECKING:
    from torch import Tensor

CHOSEN = "top_entropy"


def build(*, share: float = 0.2) -> Modifier:
    """The gain times 1[H_k >= tau], tau the quantile 1 - share of the entropies of all tokens.

    The entropies are those of the policy before the update, over the tokens of the rollout batch.
    Counts and penalties stay as they are. (arXiv:2506.01939, sec. 5)
    """
    if not 0 < share <= 1:
        raise ValueError("share must be above 0 and at most 1")

    def rule(tokens: Tokens) -> Tensor:
        return ranking.upper_quantile(tokens.stored["entropy"], share=share)

    def factor(batch: TokenBatch) -> Tensor:
        return batch.token_columns[CHOSEN]

    def modify(objective: Objective) -> Objective:
        chosen = ranking.with_choice(objective, CHOSEN, rule, needs="stored_entropy")
        return replace(chosen, factors=(*chosen.factors, factor))

    return modify

"""A token's share of the loss, by the counts of the full optimizer batch.

Aggregation is a weight, so micro-batches and ranks add up. Shapes: B rows, T completion tokens.
0 where masked; an empty batch weighs 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rlvr_cli.algorithms.objective import Totals

if TYPE_CHECKING:
    from torch import Tensor

Aggregation = Literal["seq-mean-token-mean", "token-mean", "seq-mean-token-sum", "constant"]


def token_mean(mask_BT: Tensor, totals: Totals) -> Tensor:
    """1 / tokens."""
    return mask_BT / max(totals.tokens, 1)


def seq_mean_token_mean(mask_BT: Tensor, totals: Totals) -> Tensor:
    """1 / (sequences * length)."""
    length_B1 = mask_BT.sum(-1, keepdim=True).clamp(min=1)
    return mask_BT / (max(totals.sequences, 1) * length_B1)


def seq_mean_token_sum(mask_BT: Tensor, totals: Totals) -> Tensor:
    """1 / sequences."""
    return mask_BT / max(totals.sequences, 1)


def constant(mask_BT: Tensor, totals: Totals) -> Tensor:
    """1 / (sequences * L_max), L_max the longest completion that sampling allows.

    (Dr. GRPO, arXiv:2503.20783, sec. 3.2)
    """
    return mask_BT / (max(totals.sequences, 1) * max(totals.max_length, 1))


BY_NAME = {
    "seq-mean-token-mean": seq_mean_token_mean,
    "token-mean": token_mean,
    "seq-mean-token-sum": seq_mean_token_sum,
    "constant": constant,
}

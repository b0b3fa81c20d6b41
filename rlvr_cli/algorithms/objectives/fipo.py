"""FIPO: tokens count more where what follows them has got likelier (arXiv:2603.19835, eq. 8).

Elsewhere: ms-swift, its authors' code on verl.
Use: Several updates per batch, if completions stop getting longer with `dapo`; with `--max-draws`
    and `+overlong`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import Objective, TokenBatch
from rlvr_cli.algorithms.terms import advantage, ratio, token_clip, weight
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor


def build(
    *,
    half_life: float = 32.0,
    f_low: float = 0.0,
    f_high: float = 0.2,
    safety: float = 10.0,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual_clip: float = 10.0,
    eps: float = 1e-6,
    ddof: advantage.Ddof = 1,
) -> Objective:
    """DAPO's loss, with a constant weight f for each token.

        L = -1/T sum_i sum_t f_it min(r_it A_i, clip(r_it, 1 - clip_low, 1 + clip_high) A_i)
        f_t = clip(exp(F_t), 1 - f_low, 1 + f_high); 1 where A_i < 0 and r_t > safety
        F_t = sum_{k >= t} 1[r_k <= dual_clip] 2^(-(k - t) / half_life) log r_k
        A_i = (R_i - mean R) / (std R + eps)

    F sums the log ratios of the token and those after it, which count half after `half_life`
    tokens. With one update a batch f is 1, and this is `dapo`. The defaults are those of the
    paper's 32B model; its 7B model has `f_low=0.2,safety=3`.
    """
    if not 0 < half_life < math.inf:
        raise ValueError("half_life must be above 0 tokens, and finite")
    if not (0 <= f_low <= 1 and 0 <= f_high < math.inf):
        raise ValueError("f_low must be from 0 to 1, f_high 0 or above, and finite")
    if not safety >= 1:
        raise ValueError("safety must be at least 1")

    def factor(batch: TokenBatch) -> Tensor:
        d_BT = ratio.token(batch.logp_BT.detach(), batch.old_logp_BT, batch.mask_BT)
        d_BT, r_BT = ratio.clamp(d_BT), ratio.clamp(d_BT).exp()
        counted_BT = torch.where(r_BT <= dual_clip, d_BT, 0.0)
        future_BT = ratio.future(counted_BT, discount=2 ** (-1 / half_life))
        f_BT = future_BT.clamp(math.log1p(-f_low) if f_low < 1 else -math.inf, math.log1p(f_high))
        return torch.where((batch.advantage_BT < 0) & (r_BT > safety), 1.0, f_BT.exp())

    base = token_clip.objective(
        advantage.normed(eps=eps, ddof=ddof),
        weight.token_mean,
        low=clip_low,
        high=clip_high,
    )
    return replace(base, dual_clip=token_clip.dual(dual_clip), factors=(factor,))

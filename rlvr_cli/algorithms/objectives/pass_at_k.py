"""Pass@k Training: the reward is the best of k completions (arXiv:2508.10751).

Elsewhere: its authors' code on verl.
Use: Pass@k matters and Pass@1 has stopped rising: hard prompts get more weight.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, pass_at_k, token_clip, weight

if TYPE_CHECKING:
    from torch import Tensor


def build(
    *,
    k: int = 4,
    form: pass_at_k.Form = "analytic",
    subsets: int = 0,
    seed: int = 0,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    eps: float = 1e-6,
) -> Objective:
    """The mean over all tokens of min(r A, clip(r) A).

        A_i = mean over subsets j of k completions that hold i of (max_j R - m) / (s + eps)

    m and s (ddof 0) are of max_j R over the subsets of a prompt: all of them (`analytic`, in closed
    form), so many as `subsets` drawn by chance of `seed` (`bootstrap`; 0 for as many as there are
    completions), or the completions in order, cut into subsets of k (`full`). A completion in no
    subset is left out of the batch. k must be below the number of completions of a prompt.
    """
    advantage.check_eps(eps)
    if k < 1:
        raise ValueError("k must be at least 1")
    if subsets < 0:
        raise ValueError("subsets must be 0 or more")

    def one(reward_G: Tensor) -> tuple[Tensor, Tensor]:
        if form == "analytic" or len(reward_G) < k:
            return pass_at_k.analytic(reward_G, k=k, eps=eps)
        if form == "full":
            chosen_MK = pass_at_k.parted(len(reward_G), k)
        else:
            chosen_MK = pass_at_k.drawn(len(reward_G), k, subsets or len(reward_G), seed)
        return pass_at_k.sampled(reward_G, chosen_MK, eps=eps)

    base = token_clip.objective(
        lambda step: pass_at_k.estimate(step.reward_N, step.group_N, one),
        weight.token_mean,
        low=clip_low,
        high=clip_high,
    )
    return replace(base, least_group=k + 1, is_alike=form == "analytic")

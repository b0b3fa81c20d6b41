"""DAPO: a wider upper clip, the mean over all tokens (arXiv:2503.14476, eq. 8).

Elsewhere: verl, TRL, ms-swift, open-instruct, and others as a wider upper clip.
Use: A good first choice for long completions, with `--max-draws` and `+overlong`.
"""

from dataclasses import replace

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.algorithms.terms import advantage, token_clip, weight


def build(
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual_clip: float = 10.0,
    eps: float = 1e-6,
    ddof: advantage.Ddof = 1,
) -> Objective:
    """The mean over all tokens of min(r A, clip(r) A), at least dual_clip A where A < 0.

        L = -1/T sum_i sum_t min(r_it A_i, clip(r_it, 1 - clip_low, 1 + clip_high) A_i)
        A_i = (R_i - mean R) / (std R + eps)

    Its dynamic sampling is `--max-draws`, its length penalty the modifier `overlong`.
    """
    base = token_clip.objective(
        advantage.normed(eps=eps, ddof=ddof),
        weight.token_mean,
        low=clip_low,
        high=clip_high,
    )
    return replace(base, dual_clip=token_clip.dual(dual_clip))

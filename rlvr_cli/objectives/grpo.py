"""GRPO: group-normalised advantages, clipped token ratios (arXiv:2402.03300, eq. 3)."""

from rlvr_cli.objective import Objective
from rlvr_cli.parts import advantage, ratio, surrogate, weight


def build(
    *, clip_low: float = 0.2, clip_high: float = 0.2, eps: float = 1e-6, ddof: int = 1
) -> Objective:
    """Each completion's mean of min(r A, clip(r) A), then the mean over completions.

    L = -1/N sum_i 1/|o_i| sum_t min(r_it A_i, clip(r_it, 1 - clip_low, 1 + clip_high) A_i)
    A_i = (R_i - mean R) / (std R + eps)        (arXiv:2402.03300, eq. 3)
    """
    return Objective(
        advantage=lambda step: {
            "advantage": advantage.group_norm(step.reward_N, step.group_N, eps=eps, ddof=ddof)
        },
        log_ratio=lambda batch: ratio.token(batch.logp_BT, batch.old_logp_BT, batch.mask_BT),
        surrogate=lambda batch, log_ratio_BT: surrogate.clipped(
            log_ratio_BT, batch.advantage_B[:, None], low=clip_low, high=clip_high
        ),
        weight=weight.seq_mean_token_mean,
        clip=(clip_low, clip_high),
    )

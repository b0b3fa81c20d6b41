"""Log importance ratios, of tokens and of sequences. Shapes: B rows, T completion tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor

LIMIT = 20.0  # nats; log ratios are clamped here before they are exponentiated


def token(logp_BT: Tensor, old_logp_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """The log ratio of each token, 0 where masked.

    d_t = logp_t - old_logp_t
    """
    return torch.where(mask_BT, logp_BT - old_logp_BT, 0.0)


def sequence(logp_BT: Tensor, old_logp_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """The log ratio of the completion, at each of its tokens.

    log rho = sum_t d_t        (QUATRO, arXiv:2602.04620, eq. 14)
    """
    d_BT = token(logp_BT, old_logp_BT, mask_BT)
    return d_BT.sum(-1, keepdim=True).expand_as(d_BT)


def length_normalized(logp_BT: Tensor, old_logp_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """The mean log ratio of the completion's tokens, at each of its tokens.

        log s = sum_t d_t / |o|        (GSPO, arXiv:2507.18071, eq. 7)

    0 for an empty completion.
    """
    return mean(token(logp_BT, old_logp_BT, mask_BT), mask_BT)


# What an option `ratio` of an objective names.
BY_NAME = {"token": token, "sequence": sequence, "length-normalized": length_normalized}


def token_of_sequence(logp_BT: Tensor, old_logp_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """The mean log ratio of the completion, with a gradient only by the token's own log-prob.

        log s_t = sg(log s) + log pi_t - sg(log pi_t)        (GSPO, arXiv:2507.18071, eq. 14)

    Its value is that of `length_normalized`, its gradient is not divided by the length.
    """
    d_BT = token(logp_BT, old_logp_BT, mask_BT)
    return (d_BT - d_BT.detach()) + mean(d_BT, mask_BT).detach()


def mean(value_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """The mean over the completion's tokens, at each of its tokens; 0 for an empty completion."""
    sum_B1 = torch.where(mask_BT, value_BT, 0.0).sum(-1, keepdim=True)
    return (sum_B1 / mask_BT.sum(-1, keepdim=True).clamp(min=1)).expand_as(value_BT)


def future(log_ratio_BT: Tensor, *, discount: float) -> Tensor:
    """What the log ratios from each token on sum to, discounted by how far ahead they are.

        F_t = sum_{k >= t} discount^(k - t) d_k        (FIPO, arXiv:2603.19835, eq. 6)

    Sums over 1, 2, 4, ... tokens: few steps also where completions are long.
    """
    sum_BT = log_ratio_BT
    for doubling in range((log_ratio_BT.shape[1] - 1).bit_length()):
        reach = 2**doubling
        later_BT = torch.nn.functional.pad(sum_BT[:, reach:], (0, reach))
        sum_BT = sum_BT + discount**reach * later_BT
    return sum_BT


def clamp(log_ratio_BT: Tensor) -> Tensor:
    """The log ratio within +-20 nats, so that its exponential is finite in float32.

    Flat outside; the number of clamped tokens is a metric of the step.
    """
    return log_ratio_BT.clamp(-LIMIT, LIMIT)


def is_beyond(
    log_ratio_BT: Tensor, advantage_B1: Tensor, *, low: float | Tensor, high: float | Tensor
) -> Tensor:
    """Where PPO's clip leaves no gradient: r > 1 + high and A > 0, or r < 1 - low and A < 0."""
    r_BT = clamp(log_ratio_BT).exp()
    above_BT = (advantage_B1 > 0) & (r_BT > 1 + high)
    return above_BT | ((advantage_B1 < 0) & (r_BT < 1 - low))

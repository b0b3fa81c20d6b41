"""The definitions in plain torch: they run on a CPU, in float64 too, and outlive every kernel.

Shapes: N tokens, H hidden, V vocabulary.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

_CHUNK_ELEMENTS = 1 << 24


class TokenStats(NamedTuple):
    logp_N: Tensor  # nats
    entropy_N: Tensor  # nats
    max_prob_N: Tensor


def token_stats(
    hidden_NH: Tensor,
    head_VH: Tensor,
    target_N: Tensor,
    *,
    bias_V: Tensor | None = None,
    temperature: float = 1.0,
    entropy_gradient: bool = False,
) -> TokenStats:
    """Log-prob of the target, entropy and largest probability of softmax(logits / temperature).

        logits = hidden head^T + bias

    In float32 or wider. Made in chunks of rows, so that [N, V] is never whole in memory; more
    than one chunk is computed again in the backward pass. Gradients flow through the log-prob,
    and through the entropy if asked. A logit of -inf adds nothing to the entropy.
    """
    rows = max(1, _CHUNK_ELEMENTS // head_VH.shape[0])
    starts = range(0, max(1, len(hidden_NH)), rows)
    chunks = []
    for start in starts:
        arguments = (
            hidden_NH[start : start + rows],
            head_VH,
            target_N[start : start + rows],
            bias_V,
            temperature,
            entropy_gradient,
        )
        if len(starts) > 1 and torch.is_grad_enabled():
            chunks.append(checkpoint(_chunk, *arguments, use_reentrant=False))
        else:
            chunks.append(_chunk(*arguments))
    return TokenStats(*(torch.cat(parts) for parts in zip(*chunks, strict=True)))


def _chunk(
    hidden_NH: Tensor,
    head_VH: Tensor,
    target_N: Tensor,
    bias_V: Tensor | None,
    temperature: float,
    entropy_gradient: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    logits_NV = torch.nn.functional.linear(hidden_NH, head_VH, bias_V)
    logits_NV = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32)) / temperature
    logp_NV = logits_NV.log_softmax(-1)
    with torch.set_grad_enabled(torch.is_grad_enabled() and entropy_gradient):
        finite_NV = logp_NV.masked_fill(logp_NV.isneginf(), 0.0)
        entropy_N = -(logp_NV.exp() * finite_NV).sum(-1)
    max_prob_N = logp_NV.detach().amax(-1).exp()
    return logp_NV.gather(-1, target_N[:, None])[:, 0], entropy_N, max_prob_N


def gumbel(seed_B: Tensor, position: int, vocabulary: int) -> Tensor:
    """Gumbel noise [B, V] that depends on a row's seed, the position and the token alone.

    A hash of the counter (the finaliser of splitmix64, in wrapping int64) gives 52 bits u in
    (0, 1); the noise is -log(-log u), float64. argmax(logits + noise) samples softmax(logits).
    """
    token_V = torch.arange(vocabulary, dtype=torch.int64, device=seed_B.device)
    position_1 = torch.tensor([position], dtype=torch.int64, device=seed_B.device)
    key_B1 = _mix(seed_B ^ _mix(position_1))[:, None]
    bits_BV = _mix(key_B1 + (token_V + 1) * _GOLDEN)
    u_BV = (_shift(bits_BV, 12).to(torch.float64) + 0.5) * 2.0**-52
    return -(-u_BV.log()).log()


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


_GOLDEN = _signed(0x9E3779B97F4A7C15)
_FIRST = _signed(0xBF58476D1CE4E5B9)
_SECOND = _signed(0x94D049BB133111EB)


def _shift(value: Tensor, bits: int) -> Tensor:
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def _mix(value: Tensor) -> Tensor:
    value = (value ^ _shift(value, 30)) * _FIRST
    value = (value ^ _shift(value, 27)) * _SECOND
    return value ^ _shift(value, 31)

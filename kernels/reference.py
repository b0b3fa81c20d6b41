"""The definitions in plain torch: they run on a CPU, in float64 too, and outlive every kernel.

Shapes: N tokens, H hidden, V vocabulary, K top-k.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

_CHUNK_ELEMENTS = 1 << 24
_GPU_FACTOR = 8  # a GPU needs larger products to be busy


class TokenStats(NamedTuple):
    logp_N: Tensor  # nats
    entropy_N: Tensor  # nats
    max_prob_N: Tensor
    anchor_logp_N: Tensor | None = None  # nats


def token_stats(
    hidden_NH: Tensor,
    head_VH: Tensor,
    target_N: Tensor,
    *,
    bias_V: Tensor | None = None,
    temperature: float = 1.0,
    entropy_gradient: bool = False,
    topk_NK: Tensor | None = None,
) -> TokenStats:
    """Log-prob of the target, entropy and largest probability of softmax(logits / temperature).

        logits = hidden head^T + bias
        anchor_logp = log sum_k softmax(logits / temperature)[topk_k]

    In float32 or wider. Made in chunks of rows, so that [N, V] is never whole in memory; more
    than one chunk is computed again in the backward pass. Gradients flow through the log-probs,
    and through the entropy if asked. A logit of -inf adds nothing to the entropy. The ids of a row
    of `topk_NK` differ, a negative one is an empty place, and a row without any has -inf.
    """
    chunks = []
    cuts = _cuts(len(hidden_NH), head_VH)
    for cut in cuts:
        arguments = (
            hidden_NH[cut],
            head_VH,
            target_N[cut],
            bias_V,
            temperature,
            entropy_gradient,
            None if topk_NK is None else topk_NK[cut],
        )
        if len(cuts) > 1 and torch.is_grad_enabled():
            chunks.append(checkpoint(_chunk, *arguments, use_reentrant=False))
        else:
            chunks.append(_chunk(*arguments))
    return TokenStats(*(torch.cat(parts) for parts in zip(*chunks, strict=True)))


def _cuts(count: int, head_VH: Tensor) -> list[slice]:
    """Runs of rows whose logits are few enough to be in memory at once; one run at least."""
    elements = _CHUNK_ELEMENTS * (_GPU_FACTOR if head_VH.is_cuda else 1)
    rows = max(1, elements // head_VH.shape[0])
    return [slice(start, start + rows) for start in range(0, max(1, count), rows)]


def _chunk(
    hidden_NH: Tensor,
    head_VH: Tensor,
    target_N: Tensor,
    bias_V: Tensor | None,
    temperature: float,
    entropy_gradient: bool,
    topk_NK: Tensor | None,
) -> tuple[Tensor, ...]:
    logp_NV = _log_softmax(hidden_NH, head_VH, bias_V, temperature)
    with torch.set_grad_enabled(torch.is_grad_enabled() and entropy_gradient):
        finite_NV = logp_NV.masked_fill(logp_NV.isneginf(), 0.0)
        entropy_N = -(logp_NV.exp() * finite_NV).sum(-1)
    max_prob_N = logp_NV.detach().amax(-1).exp()
    made = logp_NV.gather(-1, target_N[:, None])[:, 0], entropy_N, max_prob_N
    return made if topk_NK is None else (*made, _log_mass(logp_NV, topk_NK))


def _log_softmax(
    hidden_NH: Tensor, head_VH: Tensor, bias_V: Tensor | None, temperature: float
) -> Tensor:
    logits_NV = torch.nn.functional.linear(hidden_NH, head_VH, bias_V)
    logits_NV = logits_NV.to(torch.promote_types(logits_NV.dtype, torch.float32)) / temperature
    return logits_NV.log_softmax(-1)


def _log_mass(logp_NV: Tensor, topk_NK: Tensor) -> Tensor:
    """Log of the sum of the probabilities at the ids; -inf and no gradient where it is 0."""
    logp_NK = logp_NV.gather(-1, topk_NK.clamp(min=0)).masked_fill(topk_NK < 0, -torch.inf)
    empty_N = logp_NK.isneginf().all(-1)
    return (
        logp_NK.masked_fill(empty_N[:, None], 0.0)  # logsumexp of -inf alone has a NaN gradient
        .logsumexp(-1)
        .masked_fill(empty_N, -torch.inf)
    )


@torch.no_grad()
def top_k(
    hidden_NH: Tensor,
    head_VH: Tensor,
    k: int,
    *,
    bias_V: Tensor | None = None,
    temperature: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """The ids [N, K] of the k likeliest tokens and their log-probs over the whole vocabulary.

    Likeliest first, of equals the lower id first. In nats, float32 or wider, made in chunks of
    rows. A row with a NaN among its logits has NaN log-probs.
    """
    chunks = []
    for cut in _cuts(len(hidden_NH), head_VH):
        logp_NV = _log_softmax(hidden_NH[cut], head_VH, bias_V, temperature)
        ids_NK = _likeliest(logp_NV.masked_fill(logp_NV.isnan(), torch.inf), k)
        chunks.append((ids_NK, logp_NV.gather(-1, ids_NK)))
    ids, logps = zip(*chunks, strict=True)
    return torch.cat(ids), torch.cat(logps)


def _likeliest(logp_NV: Tensor, k: int) -> Tensor:
    """The ids of the k largest values; torch.topk alone leaves the order of equals open."""
    least_N1 = logp_NV.topk(k).values[:, -1:]
    above_NV = logp_NV > least_N1
    equal_NV = logp_NV == least_N1
    room_N1 = k - above_NV.sum(-1, keepdim=True)
    chosen_NV = above_NV | (equal_NV & (equal_NV.cumsum(-1) <= room_N1))
    ids_NK = chosen_NV.nonzero()[:, 1].view(-1, k)
    order_NK = logp_NV.gather(-1, ids_NK).sort(dim=-1, descending=True, stable=True).indices
    return ids_NK.gather(-1, order_NK)


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

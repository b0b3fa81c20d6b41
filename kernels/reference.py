"""The definitions in plain torch: they run on a CPU, in float64 too, and outlive every kernel.

Shapes: N tokens, H hidden, V vocabulary, K top-k.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from rlvr_cli.kernels import checks, chunks, sizes

_GPU_FACTOR = 8  # a GPU needs larger products to be busy


class TokenStats(NamedTuple):
    logp_N: Tensor  # nats
    entropy_N: Tensor  # nats
    max_prob_N: Tensor
    logsumexp_N: Tensor  # of the logits that the softmax is of
    anchor_logp_N: Tensor | None = None  # nats


def token_stats(
    hidden_NH: Tensor,
    head_VH: Tensor,
    target_N: Tensor,
    *,
    bias_V: Tensor | None = None,
    temperature: float = 1.0,
    softcap: float | None = None,
    vocabulary: int | None = None,
    entropy_gradient: bool = False,
    topk_NK: Tensor | None = None,
) -> TokenStats:
    """Log-prob of the target, entropy, largest probability and logsumexp of each row's softmax.

        logits = cap(hidden head^T + bias) / temperature,  cap(x) = softcap tanh(x / softcap)
        anchor_logp = log sum_k softmax(logits)[topk_k]

    In float32 or wider. Computed in chunks of rows, so that [N, V] is never in memory at once; if
    there are several chunks, the backward pass computes them again. Gradients flow through the
    log-probs and the logsumexp, and through the entropy if asked. Rows of the head from
    `vocabulary` on are padding and no tokens. A logit of -inf adds nothing to the entropy. The ids
    of a row of `topk_NK` differ from each other and from the target, a negative one is an empty
    slot, and a row without any has -inf. BadInput for anything else, and for NaN in a hidden state.
    """
    size = checks.token_stats(
        hidden_NH, head_VH, target_N, bias_V, topk_NK, temperature, softcap, vocabulary
    )
    checks.values(hidden_NH, target_N, topk_NK, size)
    head = _head(head_VH, bias_V, temperature, softcap, size)
    cuts = _cuts(len(hidden_NH), head.weight_VH)
    values = hidden_NH, *head[:2], target_N, topk_NK, head[2:], entropy_gradient, cuts
    stats: tuple[Tensor, ...] = chunks.StatsFunction.apply(*values)  # type: ignore[no-untyped-call]
    return TokenStats(*stats)


def _head(
    head_VH: Tensor, bias_V: Tensor | None, temperature: float, softcap: float | None, size: int
) -> chunks.HeadOptions:
    if size < len(head_VH):
        head_VH = head_VH[:size]
        bias_V = None if bias_V is None else bias_V[:size]
    return chunks.HeadOptions(head_VH, bias_V, temperature, softcap)


def _cuts(count: int, head_VH: Tensor) -> list[slice]:
    """Runs of rows whose logits are few enough to be in memory at once; one run at least."""
    elements = sizes.CHUNK_ELEMENTS * (_GPU_FACTOR if head_VH.is_cuda else 1)
    rows = max(1, elements // head_VH.shape[0])
    return [slice(start, start + rows) for start in range(0, max(1, count), rows)]


@torch.no_grad()
def top_k(
    hidden_NH: Tensor,
    head_VH: Tensor,
    k: int,
    *,
    bias_V: Tensor | None = None,
    temperature: float = 1.0,
    softcap: float | None = None,
    vocabulary: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The ids [N, K] of the k likeliest tokens and their log-probs over the full vocabulary.

    Likeliest first, of equals the lower id first. In nats, float32 or wider, computed in chunks
    of rows. A row with a NaN among its logits has NaN log-probs.
    """
    size = checks.logits(hidden_NH, head_VH, bias_V, temperature, softcap, vocabulary)
    checks.count(k, size)
    head = _head(head_VH, bias_V, temperature, softcap, size)
    parts = []
    for cut in _cuts(len(hidden_NH), head.weight_VH):
        logits_NV = chunks.logits(hidden_NH[cut], head)
        for piece in chunks.pieces(len(logits_NV)):
            part_NV = logits_NV[piece]
            ids_NK = _likeliest(part_NV.masked_fill(part_NV.isnan(), torch.inf), k)
            most_N = part_NV.amax(-1)
            total_N = (part_NV - most_N[:, None]).exp_().sum(-1).log()
            parts.append((ids_NK, chunks.log_probs(part_NV, ids_NK, most_N, total_N)))
    ids, logps = zip(*parts, strict=True)
    return torch.cat(ids), torch.cat(logps)


@torch.no_grad()
def collision(
    hidden_NH: Tensor,
    head_VH: Tensor,
    *,
    bias_V: Tensor | None = None,
    temperature: float = 1.0,
    softcap: float | None = None,
    vocabulary: int | None = None,
) -> Tensor:
    """The sum of the squared probabilities of each row's softmax: that two draws are one token.

    In float32 or wider, computed in chunks of rows. NaN where a row has a NaN among its logits.
    """
    size = checks.logits(hidden_NH, head_VH, bias_V, temperature, softcap, vocabulary)
    head = _head(head_VH, bias_V, temperature, softcap, size)
    parts = []
    for cut in _cuts(len(hidden_NH), head.weight_VH):
        logits_NV = chunks.logits(hidden_NH[cut], head)
        for piece in chunks.pieces(len(logits_NV)):
            part_NV = logits_NV[piece]
            power_NV = (part_NV - part_NV.amax(-1, keepdim=True)).exp_()
            total_N = power_NV.sum(-1)
            parts.append(power_NV.square_().sum(-1) / total_N.square())
    return torch.cat(parts)


def _likeliest(value_NV: Tensor, k: int) -> Tensor:
    """The ids of the k largest values; torch.topk by itself does not define the order of ties."""
    least_N1 = value_NV.topk(k).values[:, -1:]
    above_NV = value_NV > least_N1
    equal_NV = value_NV == least_N1
    room_N1 = k - above_NV.sum(-1, keepdim=True)
    chosen_NV = above_NV | (equal_NV & (equal_NV.cumsum(-1) <= room_N1))
    ids_NK = chosen_NV.nonzero()[:, 1].view(-1, k)
    order_NK = value_NV.gather(-1, ids_NK).sort(dim=-1, descending=True, stable=True).indices
    return ids_NK.gather(-1, order_NK)


def gumbel(seed_B: Tensor, position: int, vocabulary: int) -> Tensor:
    """Gumbel noise [B, V] that depends only on a row's seed, the position and the token.

    A hash of the counter (the finaliser of splitmix64, in wrapping int64) gives 52 bits u in
    (0, 1); the noise is -log(-log u), float64. argmax(logits + noise) samples softmax(logits).
    """
    token_V = torch.arange(vocabulary, dtype=torch.int64, device=seed_B.device)
    position_1 = torch.tensor([position], dtype=torch.int64, device=seed_B.device)
    key_B1 = _mix(seed_B ^ _mix(position_1))[:, None]
    bits_BV = _mix(key_B1 + (token_V + 1) * _GOLDEN)
    u_BV = (_shift(bits_BV, 12).to(torch.float64) + 0.5) * 2.0**-52
    return -(-u_BV.log()).log()


def seeds_at(seed_B: Tensor, position_B: Tensor) -> Tensor:
    """Seeds whose noise at position 0 is that of `seed_B` at each row's own position.

    The hash of position 0 is 0, so gumbel(seeds_at(s, p), 0, V) = gumbel(s, p, V) to the bit.
    """
    return seed_B ^ _mix(position_B)


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


class Sample(NamedTuple):
    token_B: Tensor
    logp_B: Tensor  # nats, of the distribution sampled from
    policy_logp_B: Tensor  # nats, of the policy at the temperature, nothing left out


@torch.no_grad()
def sample(
    policy_BV: Tensor,
    seed_B: Tensor,
    position: int,
    *,
    memory_BV: Tensor | None = None,
    mu: float = 0.0,
    temperature: float = 1.0,
    top_p: float = 1.0,
    min_prob: float = 0.0,
) -> Sample:
    """A token of each row from the policy, or from the policy minus a memory model (DLC).

        pi_sample = softmax((policy - mu memory) / temperature)

    over the tokens that the policy itself gives at least `min_prob` times its largest probability,
    then over the fewest of the likeliest of those with a mass of `top_p` together and their
    equals. The noise is `gumbel`'s, so a row depends only on its seed and logits. A logit of -inf
    of the policy is never sampled; a memory's must be finite. In float32 or wider.
    """
    check_sample(policy_BV, seed_B, memory_BV, temperature, top_p, min_prob)
    wide = torch.promote_types(policy_BV.dtype, torch.float32)
    logits_BV = policy_BV.to(wide) / temperature
    policy_logp_BV = logits_BV.log_softmax(-1)
    logp_BV = policy_logp_BV
    if memory_BV is not None and mu:
        mixed_BV = logits_BV - mu * (memory_BV.to(wide) / temperature)
        logp_BV = mixed_BV.masked_fill(logits_BV.isneginf(), -torch.inf).log_softmax(-1)
    if min_prob:
        least_B1 = policy_logp_BV.amax(-1, keepdim=True) + math.log(min_prob)
        logp_BV = logp_BV.masked_fill(policy_logp_BV < least_B1, -torch.inf).log_softmax(-1)
    if top_p < 1:
        ordered_BV = logp_BV.sort(-1, descending=True).values
        before_BV = ordered_BV.exp().cumsum(-1) - ordered_BV.exp()
        last_B1 = (before_BV < top_p).sum(-1, keepdim=True).clamp(min=1) - 1
        kept_BV = logp_BV >= ordered_BV.gather(-1, last_B1)
        logp_BV = logp_BV.masked_fill(~kept_BV, -torch.inf).log_softmax(-1)
    noise_BV = gumbel(seed_B, position, policy_BV.shape[-1])
    token_B1 = (logp_BV.double() + noise_BV).argmax(-1, keepdim=True)
    logps = (logp_BV, policy_logp_BV)
    return Sample(token_B1[:, 0], *(value_BV.gather(-1, token_B1)[:, 0] for value_BV in logps))


def check_sample(
    policy_BV: Tensor,
    seed_B: Tensor,
    memory_BV: Tensor | None,
    temperature: float,
    top_p: float,
    min_prob: float,
) -> None:
    shape = list(policy_BV.shape)
    if policy_BV.ndim != 2 or not policy_BV.shape[1]:
        raise checks.BadInput(f"policy_BV has shape {shape}, rows of a vocabulary are needed")
    if memory_BV is not None and memory_BV.shape != policy_BV.shape:
        raise checks.BadInput(f"memory_BV has shape {list(memory_BV.shape)}, policy_BV {shape}")
    if seed_B.shape != policy_BV.shape[:1] or seed_B.dtype != torch.int64:
        raise checks.BadInput(f"seed_B is {seed_B.dtype} of shape {list(seed_B.shape)}")
    if not (math.isfinite(temperature) and temperature > 0):
        raise checks.BadInput(f"temperature is {temperature}, it must be above 0")
    if not (0 < top_p <= 1 and 0 <= min_prob <= 1):
        raise checks.BadInput(f"top_p is {top_p} and min_prob {min_prob}, both are of 0 to 1")

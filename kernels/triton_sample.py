"""`reference.sample` by one Triton kernel: a program draws the token of one row.

Shapes: B rows, V vocabulary. Logits are in units of log 2 within the kernel.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from rlvr_cli.kernels import reference
from rlvr_cli.kernels.reference import Sample
from rlvr_cli.kernels.triton_tiles import INTERPRETED, LOG2E, vectors


@triton.jit
def _mix(value):  # type: ignore[no-untyped-def]
    """The finaliser of splitmix64."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB
    return value ^ (value >> 31)


@triton.jit
def _gumbel(key, token):  # type: ignore[no-untyped-def]
    """See `reference.gumbel`."""
    bits = _mix(key + (token.to(tl.uint64) + 1) * 0x9E3779B97F4A7C15)
    u = ((bits >> 12).to(tl.float64) + 0.5) * 2.220446049250313e-16
    return -tl.log(-tl.log(u))


@triton.jit
def _logits(  # type: ignore[no-untyped-def]
    policy, memory, columns, scale, mu, least, V: tl.constexpr,
    MEMORY: tl.constexpr, PLAUSIBLE: tl.constexpr,
):  # fmt: skip
    """Those to sample from, -inf where the policy's own are below `least`."""
    policy_logits = (
        tl.load(policy + columns, mask=columns < V, other=-float("inf")).to(tl.float32) * scale
    )
    logits = policy_logits
    if MEMORY:
        other = tl.load(memory + columns, mask=columns < V, other=0.0).to(tl.float32) * scale
        logits = tl.where(policy_logits > -float("inf"), policy_logits - mu * other, policy_logits)
    if PLAUSIBLE:
        logits = tl.where(policy_logits >= least, logits, -float("inf"))
    return logits


@triton.jit
def _logsumexp(  # type: ignore[no-untyped-def]
    policy, memory, scale, mu, least, V: tl.constexpr, BLOCK: tl.constexpr,
    MEMORY: tl.constexpr, PLAUSIBLE: tl.constexpr,
):  # fmt: skip
    """The logsumexp and the largest logit."""
    most = tl.full((), -1.0e30, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, V, BLOCK):
        columns = first + tl.arange(0, BLOCK)
        logits = _logits(policy, memory, columns, scale, mu, least, V, MEMORY, PLAUSIBLE)
        higher = tl.maximum(most, tl.max(logits, 0))
        total = total * tl.exp2(most - higher) + tl.exp2(logits - higher)
        most = higher
    return most + tl.log2(tl.sum(total, 0)), most


@triton.jit
def _ordered(value):  # type: ignore[no-untyped-def]
    """Integers from 0 to 2^32 - 1 in the order of float32 values."""
    bits = value.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64) + 2147483648


@triton.jit
def _nucleus(  # type: ignore[no-untyped-def]
    policy, memory, scale, mu, least, lse2, top_p, V: tl.constexpr, BLOCK: tl.constexpr,
    MEMORY: tl.constexpr, PLAUSIBLE: tl.constexpr,
):  # fmt: skip
    """The largest threshold with a mass of top_p at or above it, four bits at a time."""
    digit = tl.arange(0, 16).to(tl.int64)
    threshold = tl.full((), 0, tl.int64)
    for step in tl.static_range(8):
        at = threshold + (digit << (28 - 4 * step))
        mass = tl.zeros((16,), tl.float32)
        for first in range(0, V, BLOCK):
            columns = first + tl.arange(0, BLOCK)
            logits = _logits(policy, memory, columns, scale, mu, least, V, MEMORY, PLAUSIBLE)
            p = tl.exp2(logits - lse2)
            above = _ordered(logits)[:, None] >= at[None, :]
            mass += tl.sum(tl.where(above, p[:, None], 0.0), 0)
        enough = tl.sum(((mass >= top_p) & (digit > 0)).to(tl.int64), 0)
        threshold += enough << (28 - 4 * step)
    return threshold


@triton.jit(do_not_specialize=["position"])
def _sample_kernel(  # type: ignore[no-untyped-def]
    policy, stride, memory, stride_m, seeds, token, logp, policy_logp, position,
    scale, mu, spread, top_p,
    V: tl.constexpr, BLOCK: tl.constexpr, SEARCH: tl.constexpr,
    MEMORY: tl.constexpr, PLAUSIBLE: tl.constexpr, NUCLEUS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    policy += row * stride
    memory += row * stride_m
    own, most = _logsumexp(policy, memory, scale, 0.0, 0.0, V, BLOCK, False, False)
    least = most + spread
    lse2 = own
    if MEMORY or PLAUSIBLE:
        lse2, most = _logsumexp(policy, memory, scale, mu, least, V, BLOCK, MEMORY, PLAUSIBLE)
    threshold = tl.full((), 0, tl.int64)
    if NUCLEUS:
        threshold = _nucleus(
            policy, memory, scale, mu, least, lse2, top_p, V, SEARCH, MEMORY, PLAUSIBLE
        )
    key = _mix(tl.load(seeds + row).to(tl.uint64) ^ _mix(position.to(tl.uint64)))
    best = tl.full((), -float("inf"), tl.float64)
    chosen = tl.full((), 0, tl.int32)
    mass = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, V, BLOCK):
        columns = first + tl.arange(0, BLOCK)
        logits = _logits(policy, memory, columns, scale, mu, least, V, MEMORY, PLAUSIBLE)
        logp2 = logits - lse2
        kept = logits > -float("inf")
        if NUCLEUS:
            kept = kept & (_ordered(logits) >= threshold)
            mass += tl.where(kept, tl.exp2(logp2), 0.0)
        noisy = logp2.to(tl.float64) * 0.6931471805599453 + _gumbel(key, columns)
        noisy = tl.where(kept, noisy, -float("inf"))
        top = tl.max(noisy, 0)
        at = tl.min(tl.where(noisy == top, columns, V), 0)
        chosen = tl.where(top > best, at, chosen)
        best = tl.maximum(best, top)
    if NUCLEUS:
        lse2 += tl.log2(tl.sum(mass, 0))
    sampled = _logits(policy, memory, chosen, scale, mu, least, V, MEMORY, PLAUSIBLE)
    policy_logit = _logits(policy, memory, chosen, scale, mu, least, V, False, False)
    tl.store(token + row, chosen.to(tl.int64))
    logp2 = tl.minimum(sampled - lse2, 0.0, propagate_nan=tl.PropagateNan.ALL)
    policy_logp2 = tl.minimum(policy_logit - own, 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(logp + row, logp2 * 0.6931471805599453)
    tl.store(policy_logp + row, policy_logp2 * 0.6931471805599453)


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
    """See `reference.sample`."""
    reference.check_sample(policy_BV, seed_B, memory_BV, temperature, top_p, min_prob)
    if not len(policy_BV):
        return reference.sample(policy_BV, seed_B, position)
    policy_BV = policy_BV if policy_BV.stride(1) == 1 else policy_BV.contiguous()
    with_memory = memory_BV is not None and mu != 0
    other_BV = memory_BV if memory_BV is not None and with_memory else policy_BV
    other_BV = other_BV if other_BV.stride(1) == 1 else other_BV.contiguous()
    count, size = policy_BV.shape
    logp_2B = vectors(2, count, policy_BV.device)
    token_B = torch.empty(count, dtype=torch.int64, device=policy_BV.device)
    _sample_kernel[(count,)](
        policy_BV,
        policy_BV.stride(0),
        other_BV,
        other_BV.stride(0),
        seed_B.contiguous(),
        token_B,
        *logp_2B,
        position,
        LOG2E / temperature,
        mu,
        torch.tensor(min_prob, dtype=torch.float64).log2().item(),
        top_p,
        V=size,
        BLOCK=512 if INTERPRETED else 4096,
        SEARCH=512 if INTERPRETED else 1024,
        MEMORY=with_memory,
        PLAUSIBLE=min_prob > 0,
        NUCLEUS=top_p < 1,
        num_warps=16,
    )
    return Sample(token_B, *logp_2B)

"""`drawing.draw` by Triton kernels: in one pass, or after a search for the tokens to keep.

Shapes: B rows, V vocabulary. `scale` makes logits those in units of log 2. Every launch sums in the
same blocks, so a row's bits do not depend on how many rows there are. Log-probs are relative to the
largest logit, so that logits of any size lose nothing.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from rlvr_cli.kernels import drawing
from rlvr_cli.kernels.drawing import APART
from rlvr_cli.kernels.reference import Sample
from rlvr_cli.kernels.triton_noise import log2_waits, quick_exp2
from rlvr_cli.kernels.triton_search import logits_of, ordered, threshold
from rlvr_cli.kernels.triton_tiles import INTERPRETED, LOG2E, vectors

_SPLITS = 4  # programs that share a row, where it is long enough
_LONG = 2 * APART  # columns that passes without noise take at a time
# of a search: columns by the least number of rows, which change no result; logits to halve
_WIDE, _CAP = ({0: 128}, 128) if INTERPRETED else ({129: 512, 0: 1024}, 2048)


@triton.jit
def _add(most, total, logits, scale):  # type: ignore[no-untyped-def]
    """Each lane's largest logit and sum of exponentials relative to it, with one more."""
    power = quick_exp2(-tl.abs(logits - most) * scale)
    total = tl.where(logits > most, total * power + 1.0, total + power)
    return tl.maximum(most, logits), total


@triton.jit
def _join(most, total, scale):  # type: ignore[no-untyped-def]
    """The largest logit of all lanes, -1e30 if they have none, and the sum relative to it."""
    top = tl.max(most, 0)
    return top, tl.sum(total * tl.exp2((most - top) * scale), 0)


@triton.jit
def _log_prob(logit, top, total, scale):  # type: ignore[no-untyped-def]
    """At most 0, and 0 if there is no other token; NaN if the total is."""
    total = tl.maximum(total, 1.0e-37, propagate_nan=tl.PropagateNan.ALL)
    logp2 = tl.fma(logit - top, scale, -tl.log2(total))
    return tl.minimum(logp2, 0.0, propagate_nan=tl.PropagateNan.ALL) * 0.6931471805599453


@triton.jit
def _first(best, where, V: tl.constexpr):  # type: ignore[no-untyped-def]
    """The largest of the lanes' best, and of equals the first token."""
    winner = tl.max(best, 0)
    return winner, tl.min(tl.where(best == winner, where, V), 0)


@triton.jit
def _store(  # type: ignore[no-untyped-def]
    policy, memory, token, logp, policy_logp, chosen, top, total, own_top, own_total, scale, mu,
    V: tl.constexpr, MEMORY: tl.constexpr,
):  # fmt: skip
    own, logit = logits_of(policy, memory, chosen, mu, V, MEMORY)
    tl.store(token, chosen.to(tl.int64))
    tl.store(logp, _log_prob(logit, top, total, scale))
    tl.store(policy_logp, _log_prob(own, own_top, own_total, scale))


@triton.jit
def share_kernel(  # type: ignore[no-untyped-def]
    policy, stride, memory, stride_m, seeds, positions, part, scale, mu,
    V: tl.constexpr, BLOCK: tl.constexpr, SPLITS: tl.constexpr, SHARE: tl.constexpr,
    MEMORY: tl.constexpr,
):  # fmt: skip
    """Of a share: the largest logit and the sum relative to it, those of own logits, the winner.

    The winner is the largest logit with its noise, and its token.
    """
    row, split = tl.program_id(0).to(tl.int64), tl.program_id(1)
    policy += row * stride
    memory += row * stride_m
    seed, position = tl.load(seeds + row), tl.load(positions + row)
    lane = tl.arange(0, BLOCK)
    most = tl.full((BLOCK,), -1.0e30, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    own_most, own_total = most, total
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    where = tl.zeros((BLOCK,), tl.int32)
    for run in range(split * SHARE, (split + 1) * SHARE):
        waits, other_waits = log2_waits(seed, position, run * BLOCK + lane)
        for second in tl.static_range(2):
            columns = (2 * run + second) * BLOCK + lane
            own, logits = logits_of(policy, memory, columns, mu, V, MEMORY)
            most, total = _add(most, total, logits, scale)
            if MEMORY:
                own_most, own_total = _add(own_most, own_total, own, scale)
            noisy = logits * scale - (other_waits if second else waits)
            where = tl.where(noisy > best, columns, where)
            best = tl.maximum(best, noisy)
    top, total = _join(most, total, scale)
    own_top, own_total = _join(own_most, own_total, scale) if MEMORY else (top, total)
    winner, chosen = _first(best, where, V)
    part += (row * SPLITS + split) * 6
    tl.store(part, top)
    tl.store(part + 1, total)
    tl.store(part + 2, own_top)
    tl.store(part + 3, own_total)
    tl.store(part + 4, winner)
    tl.store(part + 5, chosen.to(tl.float32, bitcast=True))


@triton.jit
def join_kernel(  # type: ignore[no-untyped-def]
    policy, stride, memory, stride_m, part, token, logp, policy_logp, scale, mu,
    V: tl.constexpr, SPLITS: tl.constexpr, MEMORY: tl.constexpr,
):  # fmt: skip
    """The token of a row from its shares, and its log-probs."""
    row = tl.program_id(0).to(tl.int64)
    part += (row * SPLITS + tl.arange(0, SPLITS)) * 6
    top, total = _join(tl.load(part), tl.load(part + 1), scale)
    own_top, own_total = _join(tl.load(part + 2), tl.load(part + 3), scale)
    tokens = tl.load(part + 5).to(tl.int32, bitcast=True)
    _, chosen = _first(tl.load(part + 4), tokens, V)
    _store(
        policy + row * stride, memory + row * stride_m, token + row, logp + row, policy_logp + row,
        chosen, top, total, own_top, own_total, scale, mu, V, MEMORY,
    )  # fmt: skip


@triton.jit
def _extent(  # type: ignore[no-untyped-def]
    policy, memory, least, scale, mu, V: tl.constexpr, BLOCK: tl.constexpr, MEMORY: tl.constexpr
):
    """The largest logit of those whose own is `least` or above, and the sum relative to it."""
    most = tl.full((BLOCK,), -1.0e30, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, V, BLOCK):
        own, logits = logits_of(policy, memory, start + tl.arange(0, BLOCK), mu, V, MEMORY)
        logits = tl.where(ordered(own) >= least, logits, -float("inf"))
        most, total = _add(most, total, logits, scale)
    return _join(most, total, scale)


@triton.jit(do_not_specialize=["top_k"])
def search_kernel(  # type: ignore[no-untyped-def]
    policy, stride, memory, stride_m, seeds, positions, scratch, token, logp, policy_logp,
    scale, mu, spread, top_p, top_k,
    V: tl.constexpr, BLOCK: tl.constexpr, LONG: tl.constexpr, WIDE: tl.constexpr,
    CAP: tl.constexpr, MEMORY: tl.constexpr, PLAUSIBLE: tl.constexpr, TOPK: tl.constexpr,
    NUCLEUS: tl.constexpr,
):  # fmt: skip
    """A token of the likeliest: own logits of `least`, sampled ones of `kept` or above."""
    row = tl.program_id(0).to(tl.int64)
    policy += row * stride
    memory += row * stride_m
    scratch += row * CAP
    every = ordered(tl.full((), -float("inf"), tl.float32)) + 1
    own_top, own_total = _extent(policy, policy, every, scale, 0.0, V, LONG, False)
    top, least = own_top, every
    if TOPK:
        least = threshold(
            policy, policy, scratch, every, top, top_k.to(tl.int64), 1.0, scale, 0.0,
            V, LONG, WIDE, CAP, False, True,
        )  # fmt: skip
    if PLAUSIBLE:
        least = tl.maximum(least, ordered(top + spread))
    if MEMORY:
        top, _ = _extent(policy, memory, least, scale, mu, V, LONG, MEMORY)
    kept = every
    if NUCLEUS:
        kept = threshold(
            policy, memory, scratch, least, top, tl.zeros((), tl.int64), top_p, scale, mu,
            V, LONG, WIDE, CAP, MEMORY, False,
        )  # fmt: skip
    seed, position = tl.load(seeds + row), tl.load(positions + row)
    lane = tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    where = tl.zeros((BLOCK,), tl.int32)
    total = tl.zeros((BLOCK,), tl.float32)
    for run in range(0, (V + 2 * BLOCK - 1) // (2 * BLOCK)):
        columns = 2 * run * BLOCK + lane
        own, logits = logits_of(policy, memory, columns, mu, V, MEMORY)
        own_b, logits_b = logits_of(policy, memory, columns + BLOCK, mu, V, MEMORY)
        among = (ordered(own) >= least) & (ordered(logits) >= kept)
        among_b = (ordered(own_b) >= least) & (ordered(logits_b) >= kept)
        if tl.max((among | among_b).to(tl.int32), 0) > 0:
            waits, waits_b = log2_waits(seed, position, run * BLOCK + lane)
            below, below_b = (logits - top) * scale, (logits_b - top) * scale
            total += tl.where(among, quick_exp2(below), 0.0)
            total += tl.where(among_b, quick_exp2(below_b), 0.0)
            noisy = tl.where(among, below - waits, -float("inf"))
            where = tl.where(noisy > best, columns, where)
            best = tl.maximum(best, noisy)
            noisy = tl.where(among_b, below_b - waits_b, -float("inf"))
            where = tl.where(noisy > best, columns + BLOCK, where)
            best = tl.maximum(best, noisy)
    _, chosen = _first(best, where, V)
    _store(
        policy, memory, token + row, logp + row, policy_logp + row, chosen, top,
        tl.sum(total, 0), own_top, own_total, scale, mu, V, MEMORY,
    )  # fmt: skip


@torch.no_grad()
def draw(
    policy_BV: Tensor,
    seed_B: Tensor,
    position_B: Tensor,
    *,
    memory_BV: Tensor | None = None,
    mu: float = 0.0,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_prob: float = 0.0,
) -> Sample:
    """See `drawing.draw`."""
    options = temperature, top_k, top_p, min_prob
    drawing.check(policy_BV, seed_B, position_B, memory_BV, *options)
    count, size = policy_BV.shape
    device = policy_BV.device
    token_B = torch.empty(count, dtype=torch.int64, device=device)
    logp_B, own_B = vectors(2, count, device)
    if not count:
        return Sample(token_B, logp_B, own_B)
    with_memory = memory_BV is not None and mu != 0
    policy_BV = policy_BV if policy_BV.stride(1) == 1 else policy_BV.contiguous()
    other_BV = memory_BV if memory_BV is not None and with_memory else policy_BV
    other_BV = other_BV if other_BV.stride(1) == 1 else other_BV.contiguous()
    rows = policy_BV, policy_BV.stride(0), other_BV, other_BV.stride(0)
    noise, out = (seed_B.contiguous(), position_B.contiguous()), (token_B, logp_B, own_B)
    scale, top_k = LOG2E / temperature, top_k if top_k < size else 0
    spread, top_p = drawing.spread(min_prob, temperature), drawing.rounded(top_p)
    if not top_k and top_p == 1 and not min_prob:
        runs = -(-size // (2 * APART))
        splits = min(_SPLITS, 1 << (runs.bit_length() - 1))
        part = torch.empty(count, splits, 6, device=device)
        share_kernel[(count, splits)](
            *rows, *noise, part, scale, mu, V=size, BLOCK=APART, SPLITS=splits,
            SHARE=-(-runs // splits), MEMORY=with_memory, num_warps=4,
        )  # fmt: skip
        join_kernel[(count,)](
            *rows, part, *out, scale, mu, V=size, SPLITS=splits, MEMORY=with_memory, num_warps=1
        )
        return Sample(*out)
    scratch = torch.empty(count, _CAP, device=device)
    wide = next(columns for least, columns in _WIDE.items() if count >= least)
    search_kernel[(count,)](
        *rows, *noise, scratch, *out, scale, mu, spread, top_p, top_k, V=size, BLOCK=APART,
        LONG=_LONG, WIDE=wide, CAP=_CAP, MEMORY=with_memory,
        PLAUSIBLE=min_prob > 0, TOPK=top_k > 0, NUCLEUS=top_p < 1, num_warps=8,
    )  # fmt: skip
    return Sample(*out)

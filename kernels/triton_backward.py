"""Kernels for the gradients of the statistics by the logits; triton_gradients.py has the equations.

Shapes: N tokens, V vocabulary, W columns of a slice.
"""

import triton
import triton.language as tl

from rlvr_cli.kernels.triton_tiles import log2_of_share, logits_tile, store_tile, tile_origin

_LEAST_LOG2 = tl.constexpr(-200.0)  # of a probability that is 0 in float32, and finite


@triton.jit
def _slope(logits, by_cap, inverse, CAP: tl.constexpr):  # type: ignore[no-untyped-def]
    """d logit / d (hidden head^T): 1 / temperature, times 1 - tanh^2 under a soft cap."""
    slope = inverse
    if CAP:
        bent = tl.maximum(logits * by_cap, -1.0)
        slope = inverse * (1.0 - bent * bent)
    return slope


@triton.jit(do_not_specialize=["N"], do_not_specialize_on_alignment=["count"])
def stash_kernel(  # type: ignore[no-untyped-def]
    stash, stride, source, count, largest, logsumexp2, a, b, N, V, by_cap, inverse,
    ENTROPY: tl.constexpr, CAP: tl.constexpr, BN: tl.constexpr, R: tl.constexpr, J: tl.constexpr,
):  # fmt: skip
    """R tiles of row i become the gradient that belongs to the exponentials of row source[i].

    d = e (A + B log2 e),  e = p / share,  A = share (a + b log2 share) slope,  B = share b slope
    """
    parts = tl.cdiv(J, R)
    row = (tl.program_id(0) // parts).to(tl.int64)
    origin = tl.load(source + row)
    if row < tl.load(count):
        tiles = tl.program_id(0) % parts * R + tl.arange(0, R)
        columns = tiles[:, None] * BN + tl.arange(0, BN)[None, :]
        inside = columns < V
        power = tl.load(stash + origin * stride + columns, mask=inside, other=0.0).to(tl.float32)
        shift = tl.load(largest + tiles.to(tl.int64) * N + origin, mask=tiles < J, other=0.0)
        rest = tl.maximum(shift - tl.load(logsumexp2 + origin), _LEAST_LOG2)
        share = tl.exp2(rest) * inverse
        times = tl.load(a + origin) + tl.zeros_like(rest)
        if ENTROPY:
            times += tl.load(b + origin) * rest
        by_power = (share * times)[:, None] + tl.zeros_like(power)
        if ENTROPY or CAP:
            power_log2 = log2_of_share(power, stash.dtype.element_ty != tl.float32)
            if ENTROPY:
                by_power += (share * tl.load(b + origin))[:, None] * power_log2
            if CAP:
                by_power *= _slope(power_log2 + shift[:, None], by_cap, 1.0, CAP)
        d = power * by_power
        tl.store(stash + row * stride + columns, d.to(stash.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["N", "first"])
def slice_kernel(  # type: ignore[no-untyped-def]
    x, w, stride_x, stride_w, bias, scale, cap, N, V,
    out, stride_d, target, target_logit, logsumexp2, a, b, g, first, W, by_cap, inverse,
    H: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    TMA: tl.constexpr, BIAS: tl.constexpr, CAP: tl.constexpr, WIDEN: tl.constexpr,
    DTYPE: tl.constexpr,
):  # fmt: skip
    """The gradients by the logits of columns first to first + W, but for the anchors' own."""
    row, column = tile_origin(N, W, BM, BN, GROUP)
    logits = logits_tile(
        x, w, stride_x, stride_w, bias, scale, cap, N, V, row, first + column,
        H, BM, BN, BK, TMA, BIAS, CAP, WIDEN,
    )  # fmt: skip
    rows = row + tl.arange(0, BM)
    inside = rows < N
    logp2 = logits - tl.load(logsumexp2 + rows, mask=inside, other=0.0)[:, None]
    logp2 = tl.maximum(tl.minimum(logp2, 0.0), _LEAST_LOG2)
    a_rows = tl.load(a + rows, mask=inside, other=0.0) * inverse
    b_rows = tl.load(b + rows, mask=inside, other=0.0) * inverse
    by_p = a_rows[:, None] + b_rows[:, None] * logp2
    if CAP:
        by_p *= _slope(logits, by_cap, 1.0, CAP)
    d = tl.exp2(logp2) * by_p
    at = tl.load(target + rows, mask=inside, other=-1).to(tl.int32) - first - column
    here = (at >= 0) & (at < BN)
    if tl.sum(here.to(tl.int32), 0) > 0:  # few tiles hold a target
        logit = tl.load(target_logit + rows, mask=inside, other=0.0)
        g_rows = tl.load(g + rows, mask=inside, other=0.0) * _slope(logit, by_cap, inverse, CAP)
        d += tl.where(at[:, None] == tl.arange(0, BN)[None, :], g_rows[:, None], 0.0)
    store_tile(out, stride_d, d.to(DTYPE), row, column, N, W, BM, BN, TMA)


@triton.jit(do_not_specialize=["first"], do_not_specialize_on_alignment=["count"])
def chosen_kernel(  # type: ignore[no-untyped-def]
    out, stride, source, count, target, target_logit, logsumexp2, a, b, g, q, topk, anchor_logit,
    first, W, by_cap, inverse,
    K: tl.constexpr, KP: tl.constexpr, CAP: tl.constexpr, TARGET: tl.constexpr,
):  # fmt: skip
    """Writes row i's gradients at the anchors of row source[i], and at its target if wanted."""
    row = tl.program_id(0).to(tl.int64)
    if row < tl.load(count):
        origin = tl.load(source + row)
        write = out + row * stride
        lse2 = tl.load(logsumexp2 + origin)
        a_row = tl.load(a + origin)
        b_row = tl.load(b + origin)
        if TARGET:
            logit = tl.load(target_logit + origin)
            at = tl.load(target + origin) - first
            logp2 = tl.minimum(logit - lse2, 0.0)
            p = tl.exp2(logp2)
            d = tl.where(p > 0, p * (a_row + b_row * logp2), 0.0) + tl.load(g + origin)
            d *= _slope(logit, by_cap, inverse, CAP)
            tl.store(write + at, d.to(out.dtype.element_ty), mask=(at >= 0) & (at < W))
        if K > 0:
            index_k = tl.arange(0, KP)
            id_k = tl.load(topk + origin * K + index_k, mask=index_k < K, other=-1)
            logit_k = tl.load(anchor_logit + origin * K + index_k, mask=id_k >= 0, other=-1.0e30)
            logp2_k = tl.minimum(logit_k - lse2, 0.0)
            p_k = tl.exp2(logp2_k)
            d_k = p_k * (a_row + b_row * logp2_k + tl.load(q + origin))
            d_k = tl.where(p_k > 0, d_k, 0.0) * _slope(logit_k, by_cap, inverse, CAP)
            mask = (id_k >= first) & (id_k < first + W)
            tl.store(write + (id_k - first), d_k.to(out.dtype.element_ty), mask=mask)

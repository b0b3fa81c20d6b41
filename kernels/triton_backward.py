"""Kernels that make the gradients of the statistics by the logits; triton_gradients.py has the why.

Shapes: N tokens, V vocabulary, W columns of a slice.
"""

import triton
import triton.language as tl

from rlvr_cli.kernels.triton_tiles import logits_tile, place, store_tile


@triton.jit
def _slope(logits, by_cap, inverse, CAP: tl.constexpr):
    """d logit / d (hidden head^T): 1 / temperature, times 1 - tanh^2 under a soft cap."""
    slope = inverse
    if CAP:
        bent = tl.maximum(logits * by_cap, -1.0)
        slope = inverse * (1.0 - bent * bent)
    return slope


@triton.jit
def _put_chosen(
    made_row, row, target, target_logit, logsumexp2, a, b, g, q, topk, anchor_logit, first, W,
    by_cap, inverse, K: tl.constexpr, KP: tl.constexpr, CAP: tl.constexpr, TARGET: tl.constexpr,
):  # fmt: skip
    """Writes a row's gradients at its anchors, and at its target, from unrounded logits."""
    lse2 = tl.load(logsumexp2 + row)
    a_row = tl.load(a + row)
    b_row = tl.load(b + row)
    if TARGET:
        logit = tl.load(target_logit + row)
        at = tl.load(target + row) - first
        logp2 = tl.minimum(logit - lse2, 0.0)
        p = tl.exp2(logp2)
        d = tl.where(p > 0, p * (a_row + b_row * logp2), 0.0) + tl.load(g + row)
        d *= _slope(logit, by_cap, inverse, CAP)
        tl.store(made_row + at, d.to(made_row.dtype.element_ty), mask=(at >= 0) & (at < W))
    if K > 0:
        place_k = tl.arange(0, KP)
        id_k = tl.load(topk + row * K + place_k, mask=place_k < K, other=-1)
        logit_k = tl.load(anchor_logit + row * K + place_k, mask=id_k >= 0, other=-1.0e30)
        logp2_k = tl.minimum(logit_k - lse2, 0.0)
        p_k = tl.exp2(logp2_k)
        d_k = tl.where(p_k > 0, p_k * (a_row + b_row * logp2_k + tl.load(q + row)), 0.0)
        d_k *= _slope(logit_k, by_cap, inverse, CAP)
        mask = (id_k >= first) & (id_k < first + W)
        tl.store(made_row + (id_k - first), d_k.to(made_row.dtype.element_ty), mask=mask)


@triton.jit(do_not_specialize=["N"])
def stash_kernel(
    stash, stride, source, largest, target, target_logit, logsumexp2, a, b, g, q, topk,
    anchor_logit, N, V, by_cap, inverse,
    K: tl.constexpr, KP: tl.constexpr, CAP: tl.constexpr, BN: tl.constexpr, R: tl.constexpr,
    J: tl.constexpr,
):  # fmt: skip
    """Row i becomes the gradient that belongs to the exponentials of row source[i]."""
    row = tl.program_id(0).to(tl.int64)
    origin = tl.load(source + row)
    read = stash + origin * stride
    write = stash + row * stride
    lse2 = tl.load(logsumexp2 + row)
    a_row = tl.load(a + row)
    b_row = tl.load(b + row)
    for first in range(0, J, R):
        tiles = first + tl.arange(0, R)
        shift = tl.load(largest + tiles.to(tl.int64) * N + origin, mask=tiles < J, other=0.0)
        columns = tiles[:, None] * BN + tl.arange(0, BN)[None, :]
        power = tl.load(read + columns, mask=columns < V, other=0.0).to(tl.float32)
        logits = tl.log2(power) + shift[:, None]
        logp2 = logits - lse2
        p = power * tl.exp2(shift - lse2)[:, None]
        d = tl.where(power > 0, p * (a_row + b_row * logp2), 0.0)
        d = tl.where(power > 0, d * _slope(logits, by_cap, inverse, CAP), 0.0)
        tl.store(write + columns, d.to(stash.dtype.element_ty), mask=columns < V)
    tl.debug_barrier()  # the rows' other columns are written by other threads
    _put_chosen(
        write, row, target, target_logit, logsumexp2, a, b, g, q, topk, anchor_logit, 0, V,
        by_cap, inverse, K, KP, CAP, True,
    )  # fmt: skip


@triton.jit(do_not_specialize=["N", "first"])
def slice_kernel(
    x, w, stride_x, stride_w, bias, scale, cap, N, V,
    made, stride_d, target, logsumexp2, a, b, g, first, W, by_cap, inverse,
    H: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    TMA: tl.constexpr, BIAS: tl.constexpr, CAP: tl.constexpr, WIDEN: tl.constexpr,
    DTYPE: tl.constexpr,
):  # fmt: skip
    """The gradients by the logits of columns first to first + W, but for the anchors' own."""
    row, column = place(N, W, BM, BN, GROUP)
    logits = logits_tile(
        x, w, stride_x, stride_w, bias, scale, cap, N, V, row, first + column,
        H, BM, BN, BK, TMA, BIAS, CAP, WIDEN,
    )  # fmt: skip
    rows = row + tl.arange(0, BM)
    inside = rows < N
    logp2 = tl.minimum(logits - tl.load(logsumexp2 + rows, mask=inside, other=0.0)[:, None], 0.0)
    a_rows = tl.load(a + rows, mask=inside, other=0.0)
    b_rows = tl.load(b + rows, mask=inside, other=0.0)
    p = tl.exp2(logp2)
    d = tl.where(p > 0, p * (a_rows[:, None] + b_rows[:, None] * logp2), 0.0)
    at = tl.load(target + rows, mask=inside, other=-1).to(tl.int32) - first
    here = at[:, None] == (column + tl.arange(0, BN))[None, :]
    d += tl.where(here, tl.load(g + rows, mask=inside, other=0.0)[:, None], 0.0)
    d *= _slope(logits, by_cap, inverse, CAP)
    store_tile(made, stride_d, d.to(DTYPE), row, column, N, W, BM, BN, TMA)


@triton.jit(do_not_specialize=["first"])
def anchor_kernel(
    made, stride, target, target_logit, logsumexp2, a, b, g, q, topk, anchor_logit, first, W,
    by_cap, inverse, K: tl.constexpr, KP: tl.constexpr, CAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    _put_chosen(
        made + row * stride, row, target, target_logit, logsumexp2, a, b, g, q, topk, anchor_logit,
        first, W, by_cap, inverse, K, KP, CAP, False,
    )  # fmt: skip

"""The attention of complete prompts, block by block from the first position.

The result of a prompt does not depend on the others of its batch.

Shapes: P prompts, S positions of the longest, H query heads, K key heads, D head size.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from rlvr_cli.kernels.triton_tiles import INTERPRETED, capped


@triton.jit(do_not_specialize=["S"])
def causal_kernel(  # type: ignore[no-untyped-def]
    query, key, value, out, q_row, q_head, q_at, k_row, k_head, k_at, v_row, v_head, v_at,
    scale, softcap, window, S,
    H: tl.constexpr, G: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr,
    WINDOW: tl.constexpr, CAP: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * BLOCK
    head = tl.program_id(1)
    row = tl.program_id(2).to(tl.int64)
    at = first + tl.arange(0, BLOCK)
    d = tl.arange(0, DP)
    query += row * q_row + head * q_head
    key += row * k_row + head // G * k_head
    value += row * v_row + head // G * v_head
    used = (at < S)[:, None] & (d < D)[None, :]
    q = tl.load(query + at.to(tl.int64)[:, None] * q_at + d[None, :], mask=used, other=0.0)
    if WIDEN:  # the interpreter multiplies halves as if they were integers
        q = q.to(tl.float32)
    most = tl.full((BLOCK,), -1.0e30, tl.float32)  # in units of log 2
    total = tl.zeros((BLOCK,), tl.float32)
    sum_v = tl.zeros((BLOCK, DP), tl.float32)
    lowest = 0
    if WINDOW:
        lowest = tl.maximum(first - window + 1, 0) // BLOCK * BLOCK
    for start in range(lowest, first + BLOCK, BLOCK):
        column = start + tl.arange(0, BLOCK)
        known = (column < S)[:, None] & (d < D)[None, :]
        place = column.to(tl.int64)[:, None]
        k = tl.load(key + place * k_at + d[None, :], mask=known, other=0.0)
        v = tl.load(value + place * v_at + d[None, :], mask=known, other=0.0)
        if WIDEN:
            k, v = k.to(tl.float32), v.to(tl.float32)
        seen = column[None, :] <= at[:, None]
        if WINDOW:
            seen = seen & (column[None, :] > at[:, None] - window)
        score = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        score = tl.where(seen, capped(score, softcap, CAP) * 1.4426950408889634, -float("inf"))
        higher = tl.maximum(most, tl.max(score, 1))
        shrink = tl.exp2(most - higher)
        weight = tl.exp2(score - higher[:, None])
        total = total * shrink + tl.sum(weight, 1)
        part = tl.dot(weight.to(v.dtype), v, input_precision="ieee")
        sum_v = sum_v * shrink[:, None] + part
        most = higher
    attended = (sum_v / total[:, None]).to(out.dtype.element_ty)
    place = ((row * S + at.to(tl.int64)) * H + head)[:, None] * D
    tl.store(out + place + d[None, :], attended, mask=used)


@torch.no_grad()
def causal(
    query_PHSD: Tensor,
    key_PKSD: Tensor,
    value_PKSD: Tensor,
    *,
    scale: float,
    window: int = 0,
    softcap: float = 0.0,
) -> Tensor:
    """The attention [P, S, H, D] of each position to itself and those before it.

        softmax(cap(scale q k^T)) v

    To the last `window` positions only if it is above 0, capped if `softcap` is above 0. A
    position's bits depend on those before it, not on S or P.
    """
    values = [v if v.stride(3) == 1 else v.contiguous() for v in (query_PHSD, key_PKSD, value_PKSD)]
    count, heads, length, size = query_PHSD.shape
    out_PSHD = query_PHSD.new_empty(count, length, heads, size)
    if not out_PSHD.numel():
        return out_PSHD
    wide = max(16, triton.next_power_of_2(size))
    block = 16 if INTERPRETED else 64 if wide * query_PHSD.element_size() <= 256 else 32
    causal_kernel[(triton.cdiv(length, block), heads, count)](
        *values,
        out_PSHD,
        *(stride for value in values for stride in value.stride()[:3]),
        scale,
        softcap,
        window,
        length,
        H=heads,
        G=heads // key_PKSD.shape[1],
        D=size,
        DP=wide,
        BLOCK=block,
        WINDOW=window > 0,
        CAP=softcap > 0,
        WIDEN=INTERPRETED,
        num_warps=4,
        num_stages=2,
    )
    return out_PSHD

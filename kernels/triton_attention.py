"""`attention.attend` by one Triton kernel: a program has the query heads of one key head of a row.

It reads no more of the cache than the row has filled. Shapes as in attention.py.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from rlvr_cli.kernels import attention
from rlvr_cli.kernels.triton_tiles import INTERPRETED, capped

# For heads of 128 halves, by the least number of rows: positions that are read together, warps and
# stages. benchmarks/decoding_anew.py compares them.
BY_ROWS = {128: (32, 1, 4), 0: (64, 2, 3)}


@triton.jit
def attend_kernel(  # type: ignore[no-untyped-def]
    query, key, value, stride_v, keys, values, position, out, scale, softcap, window, L,
    K: tl.constexpr, G: tl.constexpr, GP: tl.constexpr, D: tl.constexpr, DP: tl.constexpr,
    BLOCK: tl.constexpr, WINDOW: tl.constexpr, CAP: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = row * K + tl.program_id(1)
    g = tl.arange(0, GP)
    d = tl.arange(0, DP)
    at = tl.load(position + row)
    used = (g < G)[:, None] & (d < D)[None, :]
    queries = (head * G + g)[:, None] * D + d[None, :]
    q = tl.load(query + queries, mask=used, other=0.0)
    k_new = tl.load(key + head * D + d, mask=d < D, other=0.0)
    v_new = tl.load(value + row * stride_v + tl.program_id(1) * D + d, mask=d < D, other=0.0)
    keys += head * L * D
    values += head * L * D
    tl.store(keys + at * D + d, k_new, mask=d < D)
    tl.store(values + at * D + d, v_new, mask=d < D)
    own = tl.sum(q.to(tl.float32) * k_new.to(tl.float32)[None, :], 1) * scale
    most = capped(own, softcap, CAP) * 1.4426950408889634  # in units of log 2
    total = tl.full((GP,), 1.0, tl.float32)
    sum_v = tl.zeros((GP, DP), tl.float32) + v_new.to(tl.float32)[None, :]
    first = tl.zeros((), tl.int64)
    if WINDOW:
        first = tl.maximum(at - window + 1, 0) // BLOCK * BLOCK
    for start in range(first, at, BLOCK):
        column = start + tl.arange(0, BLOCK)
        seen = column < at
        if WINDOW:
            seen = seen & (column > at - window)
        offsets = column[:, None] * D + d[None, :]
        known = seen[:, None] & (d < D)[None, :]
        k = tl.load(keys + offsets, mask=known, other=0.0)
        v = tl.load(values + offsets, mask=known, other=0.0)
        if WIDEN:  # the interpreter multiplies halves as if they were integers
            k, v = k.to(tl.float32), v.to(tl.float32)
        score = tl.dot(q.to(k.dtype), tl.trans(k), input_precision="ieee") * scale
        score = tl.where(
            seen[None, :], capped(score, softcap, CAP) * 1.4426950408889634, -float("inf")
        )
        higher = tl.maximum(most, tl.max(score, 1))
        shrink = tl.exp2(most - higher)
        weight = tl.exp2(score - higher[:, None])
        total = total * shrink + tl.sum(weight, 1)
        part = tl.dot(weight.to(v.dtype), v, input_precision="ieee")
        sum_v = sum_v * shrink[:, None] + part
        most = higher
    tl.store(out + queries, (sum_v / total[:, None]).to(out.dtype.element_ty), mask=used)


@torch.no_grad()
def attend(
    query_BHD: Tensor,
    key_BKD: Tensor,
    value_BKD: Tensor,
    keys_BKLD: Tensor,
    values_BKLD: Tensor,
    position_B: Tensor,
    *,
    scale: float,
    window: int = 0,
    softcap: float = 0.0,
    by_rows: bool = False,
) -> Tensor:
    """See `attention.attend`."""
    attention.check(query_BHD, key_BKD, value_BKD, keys_BKLD, values_BKLD, position_B)
    count, heads, size = query_BHD.shape
    key_heads, length = keys_BKLD.shape[1:3]
    query_BHD = query_BHD.contiguous()
    out_BHD = torch.empty_like(query_BHD)
    if not count:
        return out_BHD
    wide = max(16, triton.next_power_of_2(size))
    if value_BKD.stride()[1:] != (size, 1):  # rows may be those of a wider product
        value_BKD = value_BKD.contiguous()
    block, warps, stages = tiles(query_BHD, wide, keys_BKLD.element_size(), by_rows=by_rows)
    attend_kernel[(count, key_heads)](
        query_BHD,
        key_BKD.contiguous(),
        value_BKD,
        value_BKD.stride(0),
        keys_BKLD,
        values_BKLD,
        position_B,
        out_BHD,
        scale,
        softcap,
        window,
        length,
        K=key_heads,
        G=heads // key_heads,
        GP=max(16, triton.next_power_of_2(heads // key_heads)),
        D=size,
        DP=wide,
        BLOCK=16 if INTERPRETED else block,
        WINDOW=window > 0,
        CAP=softcap > 0,
        WIDEN=INTERPRETED,
        num_warps=warps,
        num_stages=stages,
    )
    return out_BHD


def tiles(
    query_BHD: Tensor, wide: int, element_bytes: int, *, by_rows: bool
) -> tuple[int, int, int]:
    """Positions that are read together, warps and stages."""
    if by_rows and wide * element_bytes == 256:
        return next(chosen for least, chosen in BY_ROWS.items() if len(query_BHD) >= least)
    return attention.BLOCK, 4, max(1, min(3, 1024 // (wide * element_bytes)))

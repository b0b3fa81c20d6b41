"""`coded.attend` by one Triton kernel: a program has the query heads of one key head of a row.

Shapes as in coded.py; P pairs of positions that are read together.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from rlvr_cli.kernels import coded
from rlvr_cli.kernels.coded import CodedCache
from rlvr_cli.kernels.triton_tiles import INTERPRETED, capped


class Tiles(NamedTuple):
    """How a program reads; a row's last bits depend on it, so it must not depend on B."""

    pairs: int = 16
    warps: int = 1
    stages: int = 3


TILES = Tiles()
_PLAIN = tl.constexpr(INTERPRETED)  # no instructions of the GPU
_FLOAT32 = Tiles(16, 8, 2)
_INTERPRETED = Tiles(16, 1, 1)


@triton.jit
def pairs_of(codes, WIDE: tl.constexpr):  # type: ignore[no-untyped-def]
    """The lower and the higher int8 of an int16, as float16 or float32.

    The byte of 128 and a code and the byte 0x64 are 1152 and the code as float16.
    """
    if WIDE:
        low, high = ((codes & 255) ^ 128).to(tl.float32) - 128.0, (codes >> 8).to(tl.float32)
    elif _PLAIN:
        low, high = ((codes & 255) ^ 128).to(tl.float16) - 128.0, (codes >> 8).to(tl.float16)
    else:
        low, high = tl.inline_asm_elementwise(
            """{
            .reg .b32 u, lo, hi, bias;
            xor.b32 u, $2, 0x80808080;
            prmt.b32 lo, u, 0x64646464, 0x4240;
            prmt.b32 hi, u, 0x64646464, 0x4341;
            mov.b32 bias, 0x64806480;
            sub.f16x2 $0, lo, bias;
            sub.f16x2 $1, hi, bias;
            }""",
            "=r,=r,r", [codes], dtype=(tl.float16, tl.float16), is_pure=True, pack=2,
        )  # fmt: skip
    return low, high


@triton.jit
def nearest(value):  # type: ignore[no-untyped-def]
    return (value + 12582912.0) - 12582912.0  # 1.5 * 2^23, where all numbers are integers


@triton.jit
def quantized(value):  # type: ignore[no-untyped-def]
    """See `coded.quantize`."""
    most = tl.max(tl.abs(value), 0) + 0.0 * tl.sum(value, 0)  # NaN if one is: a max ignores it
    ratio = 127.0 / tl.where(most == 0.0, 1.0, most)
    return nearest(value * ratio).to(tl.int8), most / 127.0


@triton.jit
def scores(  # type: ignore[no-untyped-def]
    q, q_rest, of_query, of_shift, keys, scales, softcap, column, at, window, d,
    D: tl.constexpr, WINDOW: tl.constexpr, CAP: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """The scores of positions in units of log 2, and the scales of their values."""
    seen = column < at
    if WINDOW:
        seen = seen & (column > at - window)
    known = seen[:, None] & (d < D)[None, :]
    k = tl.load(keys + column[:, None] * D + d[None, :], mask=known, other=0)
    of_key = tl.load(scales + 2 * column, mask=seen, other=0.0)
    of_value = tl.load(scales + 2 * column + 1, mask=seen, other=0.0)
    if WIDE:
        score = tl.dot(q, tl.trans(k.to(tl.float32)), input_precision="ieee")
    else:
        score = (tl.dot(q, tl.trans(k)) * 128 + tl.dot(q_rest, tl.trans(k))).to(tl.float32)
    score *= of_query[:, None] * of_key[None, :]
    if CAP:
        score = capped(score + of_shift[:, None], softcap, CAP) * 1.4426950408889634
    return tl.where(seen[None, :], score, -float("inf")), of_value


@triton.jit
def attend_kernel(  # type: ignore[no-untyped-def]
    query, key, value, stride_v, keys, values, pairs, scales, shift, position, out,
    scale, softcap, window, L,
    K: tl.constexpr, G: tl.constexpr, GP: tl.constexpr, D: tl.constexpr, DP: tl.constexpr,
    P: tl.constexpr, WINDOW: tl.constexpr, CAP: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    head = row * K + tl.program_id(1)
    g = tl.arange(0, GP)
    d = tl.arange(0, DP)
    p = tl.arange(0, P)
    at = tl.load(position + row).to(tl.int32)
    used = (g < G)[:, None] & (d < D)[None, :]
    queries = (head * G + g)[:, None] * D + d[None, :]
    q = tl.load(query + queries, mask=used, other=0.0).to(tl.float32)
    shifted = tl.load(shift + head * D + d, mask=d < D, other=0.0).to(tl.float32)
    k_new = tl.load(key + head * D + d, mask=d < D, other=0.0).to(tl.float32) - shifted
    v_new = tl.load(value + row * stride_v + tl.program_id(1) * D + d, mask=d < D, other=0.0)
    v_new = v_new.to(tl.float32)
    keys += head * L * D
    values += head * L * D
    pairs += head * (L // 2) * D
    scales += head * L * 2
    k_codes, k_scale = quantized(k_new)
    v_codes, v_scale = quantized(v_new)
    tl.store(keys + at * D + d, k_codes, mask=d < D)
    tl.store(values + (at // 2 * D + d) * 2 + at % 2, v_codes, mask=d < D)
    tl.store(scales + 2 * at, k_scale)
    tl.store(scales + 2 * at + 1, v_scale)
    of_shift = tl.sum(q * shifted[None, :], 1) * scale  # nothing to a softmax, but to a cap
    own = tl.sum(q * k_new[None, :], 1) * scale
    if CAP:
        own = capped(own + of_shift, softcap, CAP)
    most = own * 1.4426950408889634  # in units of log 2
    total = tl.full((GP,), 1.0, tl.float32)
    # Halves of weights are in units of the largest scale so far / 2^15: none is too large or small.
    largest = tl.maximum(v_scale, 1.0e-30)
    sum_v = tl.zeros((GP, DP), tl.float32) + (v_new * (32768.0 / largest))[None, :]
    of_query = tl.full((GP,), 1.0, tl.float32) * scale
    if not CAP:
        of_query *= 1.4426950408889634
    q_rest = q
    if not WIDE:  # queries become two digits of base 128, so that products with codes are exact
        most_q = tl.max(tl.abs(q), 1)
        most_q = tl.where(most_q == 0.0, 1.0, most_q)
        of_query *= most_q / 16256.0
        digits = nearest(q * (16256.0 / most_q)[:, None]).to(tl.int32)
        higher_digit = (digits + 64) >> 7
        q_rest = (digits - higher_digit * 128).to(tl.int8)
        q = higher_digit.to(tl.int8)
    first = tl.zeros((), tl.int32)
    if WINDOW:
        first = tl.maximum(at - window + 1, 0) // (2 * P) * (2 * P)
    for start in range(first, at, 2 * P):
        even = start + 2 * p
        score_0, scale_0 = scores(
            q, q_rest, of_query, of_shift, keys, scales, softcap, even, at, window, d,
            D, WINDOW, CAP, WIDE,
        )  # fmt: skip
        score_1, scale_1 = scores(
            q, q_rest, of_query, of_shift, keys, scales, softcap, even + 1, at, window, d,
            D, WINDOW, CAP, WIDE,
        )  # fmt: skip
        known = (even < at)[:, None] & (d < D)[None, :]
        both = tl.load(pairs + (even // 2)[:, None] * D + d[None, :], mask=known, other=0)
        v_0, v_1 = pairs_of(both, WIDE)
        higher = tl.maximum(most, tl.max(tl.maximum(score_0, score_1), 1))
        larger = tl.maximum(largest, tl.max(tl.maximum(scale_0, scale_1), 0))
        shrink = tl.exp2(most - higher)
        weight_0 = tl.exp2(score_0 - higher[:, None])
        weight_1 = tl.exp2(score_1 - higher[:, None])
        total = total * shrink + tl.sum(weight_0 + weight_1, 1)
        inverse = 32768.0 / larger
        weight_0 *= (scale_0 * inverse)[None, :]
        weight_1 *= (scale_1 * inverse)[None, :]
        sum_v *= (shrink * (largest / larger))[:, None]
        sum_v = tl.dot(weight_0.to(v_0.dtype), v_0, sum_v, input_precision="ieee")
        sum_v = tl.dot(weight_1.to(v_1.dtype), v_1, sum_v, input_precision="ieee")
        most, largest = higher, larger
    attended = sum_v * (largest / 32768.0 / total)[:, None]
    tl.store(out + queries, attended.to(out.dtype.element_ty), mask=used)


@torch.no_grad()
def attend(
    query_BHD: Tensor,
    key_BKD: Tensor,
    value_BKD: Tensor,
    cache: CodedCache,
    position_B: Tensor,
    *,
    scale: float,
    window: int = 0,
    softcap: float = 0.0,
) -> Tensor:
    """See `coded.attend`."""
    coded.check(query_BHD, key_BKD, value_BKD, cache, position_B)
    count, heads, size = query_BHD.shape
    key_heads, length = cache.keys_BKLD.shape[1:3]
    query_BHD = query_BHD.contiguous()
    out_BHD = torch.empty_like(query_BHD)
    if not count:
        return out_BHD
    if value_BKD.stride()[1:] != (size, 1):  # rows may be those of a wider product
        value_BKD = value_BKD.contiguous()
    wide = query_BHD.dtype == torch.float32
    tiles = _INTERPRETED if INTERPRETED else _FLOAT32 if wide else TILES
    attend_kernel[(count, key_heads)](
        query_BHD,
        key_BKD.contiguous(),
        value_BKD,
        value_BKD.stride(0),
        cache.keys_BKLD,
        cache.values_BKMD2,
        cache.values_BKMD2.view(torch.int16),
        cache.scales_BKL2,
        cache.shift_BKD,
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
        DP=max(32, triton.next_power_of_2(size)),
        P=tiles.pairs,
        WINDOW=window > 0,
        CAP=softcap > 0,
        WIDE=wide,
        num_warps=tiles.warps,
        num_stages=tiles.stages,
    )
    return out_BHD

"""Products and sums whose bits in a row depend only on that row, however many rows there are.

A product has the same tiles and the same order of its sums for any number of rows, where cuBLAS
takes another kernel for another shape. Shapes: N rows, H width, V columns of a product.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from rlvr_cli.kernels import triton_tiles
from rlvr_cli.kernels.triton_tiles import (
    INTERPRETED,
    LOG2E,
    Product,
    Tiles,
    logits_tile,
    store_tile,
    tile_origin,
)

WIDE = 4096  # columns from which on large tiles fill a GPU
# By the least number of columns, never of rows. All have one depth: with it vLLM's bits are the
# same for any rows and columns of a tile. benchmarks/deterministic.py compares them.
TILES = {WIDE: Tiles(128, 128, 64, 8, 4, 3), 0: Tiles(64, 64, 64, 8, 4, 4)}


@triton.jit(do_not_specialize=["N"])
def product_kernel(  # type: ignore[no-untyped-def]
    x, w, stride_x, stride_w, bias, scale, cap, N, V, out, stride_o,
    H: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    TMA: tl.constexpr, BIAS: tl.constexpr, CAP: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    row, column = tile_origin(N, V, BM, BN, GROUP)
    tile = logits_tile(
        x, w, stride_x, stride_w, bias, scale, cap, N, V, row, column,
        H, BM, BN, BK, TMA, BIAS, CAP, WIDEN,
    )  # fmt: skip
    tile = tile.to(out.dtype.element_ty)
    store_tile(out, stride_o, tile, row, column, N, V, BM, BN, False)


@torch.no_grad()
def product(
    hidden_NH: Tensor,
    weight_VH: Tensor,
    bias_V: Tensor | None = None,
    *,
    wide: bool = False,
    tiles: Tiles | None = None,
) -> Tensor:
    """[N, V] of hidden weight^T + bias with float32 sums, rounded once, or in float32 if `wide`.

    A bias below -1e30 is taken for -1e30. `tiles` are for measurements.
    """
    if hidden_NH.stride(1) != 1:
        hidden_NH = hidden_NH.contiguous()
    if weight_VH.stride(1) != 1:
        weight_VH = weight_VH.contiguous()
    count, size = len(hidden_NH), len(weight_VH)
    dtype = torch.float32 if wide else hidden_NH.dtype
    out_NV = torch.empty(count, size, dtype=dtype, device=hidden_NH.device)
    if not out_NV.numel():
        return out_NV
    given = Product(
        hidden_NH, weight_VH, bias_V,
        temperature=LOG2E,  # no units of log 2: the scale is 1
        softcap=None, tiles=tiles or tiles_of(hidden_NH, size), size=size,
    )  # fmt: skip
    product_kernel[given.grid(size)](
        *given.arguments(), out_NV, out_NV.stride(0), **given.constants()
    )
    return out_NV


def tiles_of(hidden_NH: Tensor, columns: int) -> Tiles:
    """The tiles for a dtype, a card and a number of columns."""
    chosen = triton_tiles.choose(hidden_NH)
    if INTERPRETED or hidden_NH.dtype == torch.float32 or chosen is triton_tiles.AMPERE:
        return chosen
    return next(tiles for least, tiles in TILES.items() if columns >= least)


@triton.jit
def mean_square_kernel(x, out, H: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, H, BLOCK):
        column = start + lane
        value = tl.load(x + row * H + column, mask=column < H, other=0.0).to(tl.float32)
        sums += value * value
    tl.store(out + row, tl.sum(sums, 0) / H)


@torch.no_grad()
def mean_square(values: Tensor) -> Tensor:
    """The mean of the squares of the last dimension, which stays with size 1, in float32."""
    size = values.shape[-1]
    out = torch.empty(*values.shape[:-1], 1, dtype=torch.float32, device=values.device)
    if out.numel():
        block = min(1024, triton.next_power_of_2(size))
        mean_square_kernel[(out.numel(),)](
            values.contiguous(), out, H=size, BLOCK=block, num_warps=4
        )
    return out

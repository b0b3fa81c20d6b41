"""One tile of logits, [rows, columns] of hidden head^T, as all kernels compute it.

Shapes: N tokens, H hidden, V vocabulary. Within kernels logits are in units of log 2, for exp2.
"""

import functools
import os
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
_PLAIN = tl.constexpr(INTERPRETED)  # no instructions of the GPU


class Tiles(NamedTuple):
    """How a product is cut; a row's bits depend on it, so it must not depend on N."""

    rows: int = 128
    columns: int = 256
    depth: int = 64
    group: int = 32  # tiles of rows that share a pass over the head, for the L2 cache
    warps: int = 8
    stages: int = 3


_DTYPES = {
    torch.bfloat16: tl.bfloat16,
    torch.float16: tl.float16,
    torch.float32: tl.float32,
}
_INTERPRETED = Tiles(16, 32, 16, 2, 1, 1)
_SHALLOW = Tiles(128, 128, 64, 32, 4, 3)  # its epilogue weighs more: two blocks run in parallel
_FLOAT32 = Tiles(64, 128, 16, 8, 8, 2)
AMPERE = Tiles(128, 128, 32, 8, 8, 3)


@functools.cache
def _generation(device: torch.device) -> int:
    return torch.cuda.get_device_capability(device)[0]


def choose(hidden_NH: Tensor) -> Tiles:
    """The tiles for a dtype, a hidden size and a card."""
    if INTERPRETED:
        return _INTERPRETED
    if hidden_NH.dtype == torch.float32:
        return _FLOAT32
    if _generation(hidden_NH.device) not in (9, 10):
        return AMPERE  # fits the shared memory of every card since
    return _SHALLOW if hidden_NH.shape[1] <= 2048 else Tiles()


class Product(NamedTuple):
    """The operands of a product, and what is applied to it, in the form that kernels take."""

    hidden_NH: Tensor
    head_VH: Tensor
    bias_V: Tensor | None
    temperature: float
    softcap: float | None
    tiles: Tiles
    size: int  # rows of the head that are tokens

    def by_descriptor(self) -> bool:
        """Whether the copy engine can fetch tiles: addresses and rows at multiples of 16 bytes."""
        operands = (self.hidden_NH, self.head_VH)
        if not INTERPRETED and _generation(self.hidden_NH.device) < 9:
            return False
        return all(
            value.data_ptr() % 16 == 0 and value.stride(0) * value.element_size() % 16 == 0
            for value in operands
        )

    def arguments(self) -> list[Any]:
        """x, w, their strides, the bias and the numbers: the first arguments of a kernel."""
        tiles, hidden_NH, head_VH = self.tiles, self.hidden_NH, self.head_VH
        operands: list[Any] = [hidden_NH, head_VH]
        if self.by_descriptor():
            width = hidden_NH.shape[1]
            operands = [
                TensorDescriptor(hidden_NH, list(hidden_NH.shape), [hidden_NH.stride(0), 1],
                                 [tiles.rows, tiles.depth]),
                TensorDescriptor(head_VH, [self.size, width], [head_VH.stride(0), 1],
                                 [tiles.columns, tiles.depth]),
            ]  # fmt: skip
        bias_V = hidden_NH if self.bias_V is None else self.bias_V  # a pointer that is not read
        strides = [hidden_NH.stride(0), head_VH.stride(0)]
        cap = 1.0 if self.softcap is None else self.softcap
        return [*operands, *strides, bias_V, self.scale, cap, len(hidden_NH), self.size]

    def output(self, out_NV: Tensor) -> Any:
        """A buffer that tiles are stored to, as `store_tile` takes it."""
        if not self.by_descriptor():
            return out_NV
        block = [self.tiles.rows, self.tiles.columns]
        return TensorDescriptor(out_NV, list(out_NV.shape), [out_NV.stride(0), 1], block)

    @property
    def dtype(self) -> Any:
        return _DTYPES[self.hidden_NH.dtype]

    def constants(self) -> dict[str, Any]:
        """The compile-time arguments that all kernels have, and how they are launched."""
        return {
            "H": self.hidden_NH.shape[1],
            "BM": self.tiles.rows,
            "BN": self.tiles.columns,
            "BK": self.tiles.depth,
            "GROUP": self.tiles.group,
            "TMA": self.by_descriptor(),
            "BIAS": self.bias_V is not None,
            "CAP": self.softcap is not None,
            "WIDEN": INTERPRETED,
            "num_warps": self.tiles.warps,
            "num_stages": self.tiles.stages,
        }

    @property
    def scale(self) -> float:
        return LOG2E / self.temperature

    def grid(self, columns: int) -> tuple[int]:
        rows = triton.cdiv(len(self.hidden_NH), self.tiles.rows)
        return (rows * triton.cdiv(columns, self.tiles.columns),)


def vectors(number: int, size: int, device: torch.device) -> list[Tensor]:
    """Empty float32 vectors that all begin at multiples of 16 bytes, whatever their size.

    Triton compiles a kernel again where an address is such a multiple and was none before.
    """
    return list(torch.empty(number, -(-size // 4) * 4, device=device)[:, :size])


@triton.jit
def tile_origin(N, columns, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):  # type: ignore[no-untyped-def]
    """The first row and column of this program's tile; GROUP tiles of rows are adjacent."""
    pid = tl.program_id(0)
    tall = tl.cdiv(N, BM)
    width = GROUP * tl.cdiv(columns, BN)
    first = (pid // width) * GROUP
    height = tl.minimum(tall - first, GROUP)
    return (first + (pid % width) % height) * BM, ((pid % width) // height) * BN


@triton.jit
def log2_of_share(value, HALF: tl.constexpr):  # type: ignore[no-untyped-def]
    """log2 of values from 0 to 1, finite at 0 so that 0 log2 0 is 0.

    Those that are rounded to halves afterwards take one instruction of the card, off by 2^-22 at
    most, in place of the dozen of a polynomial, which bound the pass over the stash.
    """
    value = tl.maximum(value, 1.1754943508222875e-38)
    if HALF and not _PLAIN:
        return tl.inline_asm_elementwise(
            "lg2.approx.ftz.f32 $0, $1;", "=f,f", [value], dtype=tl.float32, is_pure=True, pack=1
        )
    return tl.log2(value)


@triton.jit
def capped(raw, cap, CAP: tl.constexpr):  # type: ignore[no-untyped-def]
    """cap tanh(raw / cap)."""
    if CAP:
        raw = cap * (1.0 - 2.0 / (tl.exp2(raw * (2.0 * 1.4426950408889634 / cap)) + 1.0))
    return raw


@triton.jit
def logits_tile(  # type: ignore[no-untyped-def]
    x, w, stride_x, stride_w, bias, scale, cap, N, V, row, column,
    H: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    TMA: tl.constexpr, BIAS: tl.constexpr, CAP: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    """[BM, BN] of logits / log 2; -1e30 for -inf and beyond V, so that no NaN arises.

    By the copy engine if TMA, else by pointers. The interpreter cannot multiply bfloat16: WIDEN.
    """
    rows = row + tl.arange(0, BM)
    columns = column + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, H, BK):
        if TMA:
            a = x.load([row, k])
            b = w.load([column, k])
        else:
            inner = k + tl.arange(0, BK)
            a = tl.load(
                x + rows.to(tl.int64)[:, None] * stride_x + inner[None, :],
                mask=(rows < N)[:, None] & (inner < H)[None, :],
                other=0.0,
            )
            b = tl.load(
                w + columns.to(tl.int64)[:, None] * stride_w + inner[None, :],
                mask=(columns < V)[:, None] & (inner < H)[None, :],
                other=0.0,
            )
        if WIDEN:
            a = a.to(tl.float32)
            b = b.to(tl.float32)
        acc = tl.dot(a, b.T, acc, input_precision="ieee")
    if BIAS:
        acc += tl.load(bias + columns, mask=columns < V, other=0.0).to(tl.float32)[None, :]
    logits = capped(acc, cap, CAP) * scale
    if BIAS:
        logits = tl.where(logits < -1.0e30, -1.0e30, logits)
    if column + BN > V:
        logits = tl.where((columns < V)[None, :], logits, -1.0e30)
    return logits


@triton.jit
def store_tile(  # type: ignore[no-untyped-def]
    out, stride, tile, row, column, N, V, BM: tl.constexpr, BN: tl.constexpr, TMA: tl.constexpr
):
    """Stores a tile where it belongs in [N, V]."""
    if TMA:
        out.store([row, column], tile)
    else:
        rows = row + tl.arange(0, BM)
        columns = column + tl.arange(0, BN)
        at = out + rows.to(tl.int64)[:, None] * stride + columns[None, :]
        tl.store(at, tile, mask=(rows < N)[:, None] & (columns < V)[None, :])

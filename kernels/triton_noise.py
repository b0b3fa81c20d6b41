"""The noise of `drawing` in Triton, in float32.

Shapes: B rows, V vocabulary.
"""

import triton
import triton.language as tl

from rlvr_cli.kernels.triton_tiles import INTERPRETED

_PLAIN = tl.constexpr(INTERPRETED)  # no instructions of the GPU


@triton.jit
def quick_log2(value):  # type: ignore[no-untyped-def]
    """log2 by one instruction of the card, off by 2^-22, in place of thirty of a polynomial."""
    if not _PLAIN:
        return tl.inline_asm_elementwise(
            "lg2.approx.ftz.f32 $0, $1;", "=f,f", [value], dtype=tl.float32, is_pure=True, pack=1
        )
    return tl.log2(value)


@triton.jit
def quick_exp2(value):  # type: ignore[no-untyped-def]
    """exp2 by one GPU instruction; results below 2^-126 become 0."""
    if not _PLAIN:
        return tl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [value], dtype=tl.float32, is_pure=True, pack=1
        )
    return tl.exp2(value)


@triton.jit
def rounded_product(value, other):  # type: ignore[no-untyped-def]
    """The product in float32; a plain one may go into a sum that follows without being rounded."""
    if not _PLAIN:
        return tl.inline_asm_elementwise(
            "mul.rn.f32 $0, $1, $2;", "=f,f,f", [value, other], dtype=tl.float32, is_pure=True,
            pack=1,
        )  # fmt: skip
    return value * other


@triton.jit
def _log2_wait(high, low):  # type: ignore[no-untyped-def]
    """See `drawing.log2_waits`; a series near v = 0, where 1 - v would lose the bits of v."""
    flip = (high.to(tl.int32, bitcast=True) >> 31).to(tl.uint32, bitcast=True)
    v = (high ^ flip).to(tl.float32) * 2.0**-32 + ((low ^ flip).to(tl.float32) + 0.5) * 2.0**-64
    series = 0.28853900817779268 + v * 0.2404491734814939
    series = 0.48089834696298783 + v * (0.36067376022224085 + v * series)
    series = v * (1.4426950408889634 + v * (0.7213475204444817 + v * series))
    wait = -quick_log2(tl.where(flip != 0, v, 1.0 - v))
    return quick_log2(tl.where((v < 0.0625) & (flip == 0), series, wait))


@triton.jit
def log2_waits(seed, position, pairs):  # type: ignore[no-untyped-def]
    """The noise of the first and of the second token of each pair of tokens."""
    zeros = tl.zeros_like(pairs).to(tl.uint32)
    key0, key1 = seed.to(tl.uint32), (seed.to(tl.uint64) >> 32).to(tl.uint32)
    a, b, c, d = tl.philox_impl(
        pairs.to(tl.uint32), zeros + position.to(tl.uint32), zeros, zeros, key0, key1
    )
    return _log2_wait(a, b), _log2_wait(c, d)

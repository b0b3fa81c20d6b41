"""The threshold of top-k and top-p: a few passes over the logits, then halvings in registers.

Shapes: V vocabulary. `scale` makes logits those in units of log 2. They are compared as they are
given, so that no rounding of a product decides what is kept.
"""

import triton
import triton.language as tl

from rlvr_cli.kernels.triton_noise import quick_exp2, rounded_product


@triton.jit
def logits_of(  # type: ignore[no-untyped-def]
    policy, memory, columns, mu, V: tl.constexpr, MEMORY: tl.constexpr
):
    """The policy's own logits, and those to sample from, which differ where there is a memory."""
    own = tl.load(policy + columns, mask=columns < V, other=-float("inf")).to(tl.float32)
    logits = own
    if MEMORY:
        other = tl.load(memory + columns, mask=columns < V, other=0.0).to(tl.float32)
        logits = tl.where(own > -float("inf"), own - rounded_product(mu, other), own)
    return own, logits


@triton.jit
def ordered(value):  # type: ignore[no-untyped-def]
    """Integers in the order of float32 values; of zeros of both signs the same."""
    bits = (value + 0.0).to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


@triton.jit
def _ordered_logits(  # type: ignore[no-untyped-def]
    policy, memory, columns, least, mu, V: tl.constexpr, MEMORY: tl.constexpr
):
    """The logits whose own are `least` or above, others as -inf; in order as integers."""
    own, logits = logits_of(policy, memory, columns, mu, V, MEMORY)
    logits = tl.where(ordered(own) >= least, logits, -float("inf"))
    return logits, ordered(logits)


@triton.jit
def _mass(logits, top, scale):  # type: ignore[no-untyped-def]
    """Integer multiples of 2^-40 of the likeliest token's mass."""
    return (quick_exp2((logits - top) * scale) * 1099511627776.0).to(tl.int64)


@triton.jit
def _between(low, high, part):  # type: ignore[no-untyped-def]
    """low + part/9 of the way to high."""
    step = tl.maximum((high.to(tl.int64) - low.to(tl.int64)) // 9, 1)
    return tl.minimum(low.to(tl.int64) + step * part, high.to(tl.int64)).to(tl.int32)


@triton.jit
def _halve(  # type: ignore[no-untyped-def]
    policy, memory, scratch, least, top, goal, low, high, above, scale, mu,
    V: tl.constexpr, BLOCK: tl.constexpr, CAP: tl.constexpr, MEMORY: tl.constexpr,
    COUNT: tl.constexpr,
):  # fmt: skip
    """The threshold among at most CAP logits from `low` up to `high`, which registers hold."""
    filled = tl.full((), 0, tl.int32)
    for start in range(0, V, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        logits, order = _ordered_logits(policy, memory, columns, least, mu, V, MEMORY)
        inside = ((order >= low) & (order < high)).to(tl.int32)
        count = tl.sum(inside, 0)
        if count > 0:
            place = filled + tl.cumsum(inside, 0) - 1
            tl.store(scratch + place, logits, mask=(inside > 0) & (place < CAP))
            filled += count
    tl.debug_barrier()
    at = tl.arange(0, CAP)
    logits = tl.load(scratch + at, mask=at < filled, other=-float("inf"))
    tl.debug_barrier()  # another search may fill it again
    order = ordered(logits)
    each = (at < filled).to(tl.int64) if COUNT else _mass(logits, top, scale)
    for _ in range(32):
        middle = (low.to(tl.int64) + (high.to(tl.int64) - low.to(tl.int64)) // 2).to(tl.int32)
        enough = above + tl.sum(tl.where(order >= middle, each, 0), 0) >= goal
        low = tl.where(enough, middle, low)
        high = tl.where(enough, high, middle)
    return low


@triton.jit
def threshold(  # type: ignore[no-untyped-def]
    policy, memory, scratch, least, top, goal, share, scale, mu,
    V: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr, CAP: tl.constexpr,
    MEMORY: tl.constexpr, COUNT: tl.constexpr,
):  # fmt: skip
    """The largest ordered logit at or above which there are `goal` tokens, or `share` of the mass.

    `top` is the largest logit. At `low` enough is kept, at `high` too little. Each pass has eight
    thresholds between them, the first ones steps of two powers of two below the largest logit,
    until at most CAP logits are between.
    """
    if not COUNT:
        sums = tl.zeros((BLOCK,), tl.int64)
        for start in range(0, V, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            logits, _ = _ordered_logits(policy, memory, columns, least, mu, V, MEMORY)
            sums += _mass(logits, top, scale)
        wanted = tl.sum(sums, 0).to(tl.float64) * (tl.zeros((), tl.float64) + share)
        goal = wanted.to(tl.int64)
        goal += (goal.to(tl.float64) < wanted).to(tl.int64)
    eight = tl.arange(0, 8)
    low = ordered(tl.full((), -float("inf"), tl.float32)) + 1
    high = ordered(top) + 1
    above, count_high = tl.full((), 0, tl.int64), tl.full((), 0, tl.int32)
    count_low = tl.full((), V, tl.int32)
    at = tl.maximum(ordered(top - (16 - 2 * eight).to(tl.float32) / scale), low)
    while (count_low - count_high > CAP) & (high.to(tl.int64) - low.to(tl.int64) > 1):
        counts = tl.zeros((8, WIDE), tl.int32)
        masses = tl.zeros((8, WIDE), tl.int64)
        for start in range(0, V, WIDE):
            columns = start + tl.arange(0, WIDE)
            logits, order = _ordered_logits(policy, memory, columns, least, mu, V, MEMORY)
            kept = order[None, :] >= at[:, None]
            counts += kept.to(tl.int32)
            if not COUNT:
                masses += tl.where(kept, _mass(logits, top, scale)[None, :], 0)
        count_8 = tl.sum(counts, 1)
        sum_8 = count_8.to(tl.int64) if COUNT else tl.sum(masses, 1)
        enough = sum_8 >= goal
        above = tl.maximum(above, tl.max(tl.where(enough, 0, sum_8), 0))
        low = tl.maximum(low, tl.max(tl.where(enough, at, low), 0))
        high = tl.minimum(high, tl.min(tl.where(enough, high, at), 0))
        count_low = tl.minimum(count_low, tl.min(tl.where(enough, count_8, V), 0))
        count_high = tl.maximum(count_high, tl.max(tl.where(enough, 0, count_8), 0))
        at = _between(low, high, eight + 1)
    if high.to(tl.int64) - low.to(tl.int64) > 1:
        low = _halve(
            policy, memory, scratch, least, top, goal, low, high, above, scale, mu,
            V, BLOCK, CAP, MEMORY, COUNT,
        )  # fmt: skip
    return low

"""Statistics of each row's softmax from one product whose logits are never stored.

Shapes: N tokens, H hidden, V vocabulary, K top-k, J tiles of columns. Logits and logsumexps are in
units of log 2 here. Each tile leaves its largest logit, sum of exponentials and sum of exponential
times logit; they are joined in a fixed order, so a row's bits do not depend on its batch-mates.
"""

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from rlvr_cli.kernels.triton_tiles import (
    Product,
    capped,
    logits_tile,
    store_tile,
    tile_origin,
    vectors,
)

GROUP_COLUMNS = 32  # whose largest logit is kept to find the likeliest tokens


class ForwardRows(NamedTuple):
    """The results of the forward pass for each row; logits in units of log 2."""

    logp_N: Tensor  # nats
    entropy_N: Tensor  # nats
    max_prob_N: Tensor
    logsumexp_N: Tensor  # nats
    logsumexp2_N: Tensor
    target_N: Tensor  # its logit
    largest_JN: Tensor  # of each tile
    stash_NV: Tensor | None  # exp2(logit - largest of its tile)
    group_max_NG: Tensor | None


@triton.jit(do_not_specialize=["N"])
def _forward_kernel(  # type: ignore[no-untyped-def]
    x, w, stride_x, stride_w, bias, scale, cap, N, V,
    target, stash, stride_e, target_logit, largest, total, weighted, group_max, groups,
    H: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    TMA: tl.constexpr, BIAS: tl.constexpr, CAP: tl.constexpr, WIDEN: tl.constexpr,
    DTYPE: tl.constexpr, STASH: tl.constexpr, TARGET: tl.constexpr,
    GROUP_MAX: tl.constexpr, GC: tl.constexpr,
):  # fmt: skip
    row, column = tile_origin(N, V, BM, BN, GROUP)
    logits = logits_tile(
        x, w, stride_x, stride_w, bias, scale, cap, N, V, row, column,
        H, BM, BN, BK, TMA, BIAS, CAP, WIDEN,
    )  # fmt: skip
    rows = row + tl.arange(0, BM)
    columns = column + tl.arange(0, BN)
    inside = rows < N
    if TARGET:
        at = tl.load(target + rows, mask=inside, other=-1).to(tl.int32)
        here = (at >= column) & (at < column + BN)
        if tl.sum(here.to(tl.int32), 0) > 0:  # few tiles hold a target
            chosen = tl.where(at[:, None] == columns[None, :], logits, 0.0)
            tl.store(target_logit + rows, tl.sum(chosen, 1), mask=here)
    most = tl.max(logits, 1)
    power = tl.exp2(logits - most[:, None])
    if STASH:
        store_tile(stash, stride_e, power.to(DTYPE), row, column, N, V, BM, BN, TMA)
    if GROUP_MAX:
        parts = tl.max(tl.reshape(logits, [BM, BN // GC, GC]), 2)
        group = column // GC + tl.arange(0, BN // GC)
        at_group = group_max + rows.to(tl.int64)[:, None] * groups + group[None, :]
        tl.store(at_group, parts, mask=inside[:, None] & (group < groups)[None, :])
    partial = (column // BN).to(tl.int64) * N + rows
    tl.store(largest + partial, most, mask=inside)
    tl.store(total + partial, tl.sum(power, 1), mask=inside)
    tl.store(weighted + partial, tl.sum(power * logits, 1), mask=inside)


@triton.jit(do_not_specialize=["N"])
def _join_kernel(  # type: ignore[no-untyped-def]
    largest, total, weighted, target_logit, logp, entropy, max_prob, logsumexp, logsumexp2,
    N, J: tl.constexpr, BJ: tl.constexpr, BR: tl.constexpr,
):  # fmt: skip
    """The statistics of rows from those of their tiles, in the order of the tiles."""
    rows = tl.program_id(0) * BR + tl.arange(0, BR)
    most = tl.full((BR,), -1.0e30, tl.float32)
    sums = tl.zeros((BR,), tl.float32)
    moments = tl.zeros((BR,), tl.float32)
    for first in range(0, J, BJ):
        tiles = first + tl.arange(0, BJ)
        mask = (tiles < J)[:, None] & (rows < N)[None, :]
        at = tiles.to(tl.int64)[:, None] * N + rows[None, :]
        peak = tl.load(largest + at, mask=mask, other=-1.0e30)
        higher = tl.maximum(most, tl.max(peak, 0))
        share = tl.exp2(peak - higher[None, :])
        fall = tl.exp2(most - higher)
        sums = sums * fall + tl.sum(tl.load(total + at, mask=mask, other=0.0) * share, 0)
        moments = moments * fall + tl.sum(tl.load(weighted + at, mask=mask, other=0.0) * share, 0)
        most = higher
    lse2 = most + tl.log2(sums)
    chosen = tl.load(target_logit + rows, mask=rows < N, other=0.0)
    logp2 = tl.minimum(chosen - lse2, 0.0)
    logp2 = tl.where(chosen <= -1.0e30, -float("inf"), logp2)
    logp2 = tl.where(lse2 == lse2, logp2, lse2)  # NaN stays NaN
    ln2 = 0.6931471805599453
    tl.store(logp + rows, logp2 * ln2, mask=rows < N)
    tl.store(entropy + rows, tl.maximum(lse2 - moments / sums, 0.0) * ln2, mask=rows < N)
    tl.store(max_prob + rows, 1.0 / sums, mask=rows < N)
    tl.store(logsumexp + rows, lse2 * ln2, mask=rows < N)
    tl.store(logsumexp2 + rows, lse2, mask=rows < N)


def forward(
    product: Product,
    target_N: Tensor | None = None,
    *,
    stash: bool = False,
    group_max: bool = False,
) -> ForwardRows:
    """One pass over the head; `stash` keeps exponentials in the hidden states' dtype for backward.

    float16 and bfloat16 exponentials are of the tile's largest, so their error is relative.
    """
    count, size, tiles = len(product.hidden_NH), product.size, product.tiles
    device = product.hidden_NH.device
    stash_NV = stash_buffer(product) if stash else None
    count_J = triton.cdiv(size, tiles.columns)
    partial_3JN = [partial.view(count_J, count) for partial in vectors(3, count_J * count, device)]
    out_6N = vectors(6, count, device)
    group_max_NG = None
    if group_max:
        group_max_NG = torch.empty(count, triton.cdiv(size, GROUP_COLUMNS), device=device)
    _forward_kernel[product.grid(size)](
        *product.arguments(),
        partial_3JN[0] if target_N is None else target_N,
        partial_3JN[0] if stash_NV is None else product.output(stash_NV),
        0 if stash_NV is None else stash_NV.stride(0),
        out_6N[5],
        *partial_3JN,
        partial_3JN[0] if group_max_NG is None else group_max_NG,
        0 if group_max_NG is None else group_max_NG.shape[1],
        **product.constants(),
        DTYPE=product.dtype,
        STASH=stash,
        TARGET=target_N is not None,
        GROUP_MAX=group_max,
        GC=GROUP_COLUMNS,
    )
    if target_N is None:
        out_6N[5].zero_()
    _join_kernel[(triton.cdiv(count, 32),)](
        *partial_3JN, out_6N[5], *out_6N[:5], count, count_J, BJ=128, BR=32, num_warps=4
    )
    values: list[Any] = [*out_6N, partial_3JN[0], stash_NV, group_max_NG]
    return ForwardRows(*values)


def stash_buffer(product: Product) -> Tensor:
    """[N, V] in the hidden states' dtype, its rows at multiples of 128 bytes."""
    hidden_NH = product.hidden_NH
    width = triton.cdiv(product.size, 64) * 64
    padded_NV = torch.empty(len(hidden_NH), width, dtype=hidden_NH.dtype, device=hidden_NH.device)
    return padded_NV[:, : product.size]


@triton.jit
def _logits_at_kernel(  # type: ignore[no-untyped-def]
    x, w, stride_x, stride_w, bias, scale, cap, V, ids, logits, logsumexp2, log_mass, K,
    H: tl.constexpr, KP: tl.constexpr, BH: tl.constexpr, GC: tl.constexpr,
    BIAS: tl.constexpr, CAP: tl.constexpr, MASS: tl.constexpr,
):  # fmt: skip
    """The logits of a row at its ids, or at GC columns from each of its ids times GC."""
    row = tl.program_id(0).to(tl.int64)
    index_k = tl.program_id(1) * KP + tl.arange(0, KP)
    listed = tl.load(ids + row * (K // GC) + index_k // GC, mask=index_k < K, other=-1)
    id_k = tl.where(listed >= 0, listed.to(tl.int64) * GC + index_k % GC, -1)
    given = (id_k >= 0) & (id_k < V)
    acc = tl.zeros((KP, BH), tl.float32)
    for h in range(0, H, BH):
        inner = h + tl.arange(0, BH)
        a = tl.load(x + row * stride_x + inner, mask=inner < H, other=0.0).to(tl.float32)
        b = tl.load(
            w + id_k[:, None] * stride_w + inner[None, :],
            mask=given[:, None] & (inner < H)[None, :],
            other=0.0,
        ).to(tl.float32)
        acc += a[None, :] * b
    value = tl.sum(acc, 1)
    if BIAS:
        value += tl.load(bias + id_k, mask=given, other=0.0).to(tl.float32)
    value = tl.where(given, capped(value, cap, CAP) * scale, -float("inf"))
    tl.store(logits + row * K + index_k, value, mask=index_k < K)
    if MASS:
        lse2 = tl.load(logsumexp2 + row)
        most = tl.max(value, 0)
        safe = tl.where(most > -float("inf"), most, 0.0)
        mass2 = safe + tl.log2(tl.sum(tl.exp2(value - safe), 0)) - lse2
        mass2 = tl.where(most > -float("inf"), tl.minimum(mass2, 0.0), -float("inf"))
        tl.store(log_mass + row, mass2 * 0.6931471805599453)


def logits_at(product: Product, ids_NK: Tensor, *, columns: int = 1) -> Tensor:
    """Logits [N, K columns] at ids, or at runs of `columns` ids that are numbered by ids.

    -inf at a negative id and beyond the vocabulary.
    """
    return _logits_at(product, ids_NK, columns, None)[0]


def anchors(product: Product, topk_NK: Tensor, logsumexp2_N: Tensor) -> tuple[Tensor, Tensor]:
    """The logits [N, K] of anchors and the log of their mass [N] in nats, -inf where it is 0."""
    return _logits_at(product, topk_NK, 1, logsumexp2_N)


def _logits_at(
    product: Product, ids_NK: Tensor, columns: int, logsumexp2_N: Tensor | None
) -> tuple[Tensor, Tensor]:
    count, wide = len(ids_NK), ids_NK.shape[1] * columns
    device = ids_NK.device
    logits_NK = torch.empty(count, wide, device=device)
    log_mass_N = torch.full((count,), -torch.inf, device=device)
    if not wide:
        return logits_NK, log_mass_N
    mass = logsumexp2_N is not None
    block = triton.next_power_of_2(wide) if mass else min(64, triton.next_power_of_2(wide))
    hidden_NH, head_VH, constants = product.hidden_NH, product.head_VH, product.constants()
    _logits_at_kernel[(count, triton.cdiv(wide, block))](
        hidden_NH,
        head_VH,
        hidden_NH.stride(0),
        head_VH.stride(0),
        hidden_NH if product.bias_V is None else product.bias_V,
        product.scale,
        1.0 if product.softcap is None else product.softcap,
        product.size,
        ids_NK,
        logits_NK,
        logits_NK if logsumexp2_N is None else logsumexp2_N,
        log_mass_N,
        wide,
        H=constants["H"],
        KP=block,
        BH=256 if block <= 16 else 128 if block <= 32 else 64,
        GC=columns,
        BIAS=constants["BIAS"],
        CAP=constants["CAP"],
        MASS=mass,
        num_warps=4,
    )
    return logits_NK, log_mass_N

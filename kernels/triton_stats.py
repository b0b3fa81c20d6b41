"""`reference.token_stats` and `reference.top_k` by Triton kernels, without logits in memory.

Shapes: N tokens, H hidden, V vocabulary, K top-k, G groups of columns.
"""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from rlvr_cli.kernels import (
    checks,
    reference,
    triton_checks,
    triton_forward,
    triton_gradients,
    triton_upstream,
)
from rlvr_cli.kernels.reference import TokenStats
from rlvr_cli.kernels.sizes import STASH_SHARE
from rlvr_cli.kernels.triton_tiles import LOG2E, Product, Tiles, choose


def token_stats(
    hidden_NH: Tensor,
    head_VH: Tensor,
    target_N: Tensor,
    *,
    bias_V: Tensor | None = None,
    temperature: float = 1.0,
    softcap: float | None = None,
    vocabulary: int | None = None,
    entropy_gradient: bool = False,
    topk_NK: Tensor | None = None,
    stash_bytes: int | None = None,
    tiles: Tiles | None = None,
) -> TokenStats:
    """See `reference.token_stats`. The sums are of float32, whatever the inputs are.

    If [N, V] in the hidden states' dtype takes at most `stash_bytes`, by default 1/16 of the
    GPU's memory, it is kept for the backward pass, which then computes no logits again. A head
    with a float32 `main_grad` has its gradient added there, and no other; one whose `grad_dtype` is
    float32 gets it in that.
    """
    size = checks.token_stats(
        hidden_NH, head_VH, target_N, bias_V, topk_NK, temperature, softcap, vocabulary
    )
    if not len(hidden_NH):
        return reference.token_stats(
            hidden_NH, head_VH, target_N, bias_V=bias_V, entropy_gradient=entropy_gradient,
            topk_NK=topk_NK,
        )  # fmt: skip
    stats = _TokenStats.apply(  # type: ignore[no-untyped-call]
        hidden_NH,
        head_VH,
        bias_V,
        target_N,
        topk_NK,
        (temperature, softcap, tiles or choose(hidden_NH), size),
        entropy_gradient,
        _stash_bytes(hidden_NH) if stash_bytes is None else stash_bytes,
        torch.is_grad_enabled(),
    )
    return TokenStats(*cast(tuple[Tensor, ...], stats))


def _stash_bytes(hidden_NH: Tensor) -> int:
    """A share of total memory, not of free memory, on which the gradient's bits must not depend."""
    if not hidden_NH.is_cuda:
        return 1 << 30
    return torch.cuda.get_device_properties(hidden_NH.device).total_memory // STASH_SHARE


def _product(
    hidden_NH: Tensor,
    head_VH: Tensor,
    bias_V: Tensor | None,
    numbers: tuple[float, float | None, Tiles, int],
) -> Product:
    return Product(_rows(hidden_NH), _rows(head_VH), bias_V, *numbers)


def _rows(value: Tensor) -> Tensor:
    """The values without gradient, with contiguous rows."""
    value = value.detach()
    return value if value.stride(1) == 1 else value.contiguous()


@contextlib.contextmanager
def _overlapping(device: torch.device, ready: torch.cuda.Event | None) -> Iterator[None]:
    """Runs work that waits for an event but not for later kernels, and takes priority over them."""
    if ready is None:
        yield
        return
    stream = _urgent(device)
    stream.wait_event(ready)
    with torch.cuda.stream(stream):
        yield


@functools.cache
def _urgent(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]


class _TokenStats(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden_NH: Tensor,
        head_VH: Tensor,
        bias_V: Tensor | None,
        target_N: Tensor,
        topk_NK: Tensor | None,
        numbers: tuple[float, float | None, Tiles, int],
        entropy_gradient: bool,
        stash_bytes: int,
        grad_enabled: bool,
    ) -> tuple[Tensor, ...]:
        product = _product(hidden_NH, head_VH, None if bias_V is None else bias_V.detach(), numbers)
        target_N = target_N.contiguous()
        topk_NK = None if topk_NK is None else topk_NK.contiguous()
        needed = grad_enabled and any(ctx.needs_input_grad[:3])
        buffer_bytes = len(hidden_NH) * product.size * hidden_NH.element_size()
        stash = needed and buffer_bytes <= stash_bytes
        ready = torch.cuda.current_stream().record_event() if hidden_NH.is_cuda else None
        rows = triton_forward.forward(product, target_N, stash=stash)
        with _overlapping(hidden_NH.device, ready):
            refuse = triton_checks.values(product.hidden_NH, target_N, topk_NK, product.size)
        outputs: tuple[Tensor, ...] = rows.logp_N, rows.entropy_N, rows.max_prob_N, rows.logsumexp_N
        anchor_NK = None
        if topk_NK is not None:
            anchor_NK, anchor_N = triton_forward.anchors(product, topk_NK, rows.logsumexp2_N)
            outputs = (*outputs, anchor_N)
        refuse()
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*([] if entropy_gradient else [outputs[1]]), outputs[2])
        if needed:
            # The head itself is saved, not a view: ZeRO-3 fills it again for the backward pass.
            ctx.save_for_backward(
                hidden_NH, head_VH, bias_V, target_N, topk_NK, anchor_NK, *outputs
            )
            ctx.rows = rows._replace(largest_JN=rows.largest_JN if stash else rows.target_N)
            ctx.numbers, ctx.stash = numbers, stash
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *by: Tensor | None) -> tuple[Tensor | None, ...]:
        hidden_NH, head_VH, bias_V, target_N, topk_NK, anchor_NK, *outputs = ctx.saved_tensors
        rows, ctx.rows = ctx.rows, None
        if rows is None:
            raise RuntimeError("the gradient of token_stats was computed twice")
        product = _product(hidden_NH, head_VH, bias_V, ctx.numbers)
        upstream = triton_upstream.upstream(
            by, rows, target_N, topk_NK, anchor_NK, outputs[4] if outputs[4:] else None
        )
        needs = ctx.needs_input_grad[:3]
        main_VH = getattr(head_VH, "main_grad", None)
        if main_VH is not None and main_VH.dtype != torch.float32:
            main_VH = None
        if ctx.stash:
            gradients = triton_gradients.stash(
                product, upstream, rows.stash_NV, rows.largest_JN, needs, main_VH
            )
        else:
            gradients = triton_gradients.recompute(product, upstream, needs, main_VH)
        return (*gradients, *[None] * 6)


@torch.no_grad()
def top_k(
    hidden_NH: Tensor,
    head_VH: Tensor,
    k: int,
    *,
    bias_V: Tensor | None = None,
    temperature: float = 1.0,
    softcap: float | None = None,
    vocabulary: int | None = None,
    tiles: Tiles | None = None,
) -> tuple[Tensor, Tensor]:
    """See `reference.top_k`; k is 64 at most.

    A likeliest token is in one of the k groups of 32 columns with the largest logits: one pass
    over the head finds them, and only their logits are computed again.
    """
    size = checks.logits(hidden_NH, head_VH, bias_V, temperature, softcap, vocabulary)
    checks.count(k, size)
    if not len(hidden_NH):
        return reference.top_k(hidden_NH, head_VH, k, bias_V=bias_V)
    numbers = (temperature, softcap, tiles or choose(hidden_NH), size)
    product = _product(hidden_NH, head_VH, bias_V, numbers)
    rows = triton_forward.forward(product, group_max=True)
    assert rows.group_max_NG is not None
    wide = triton_forward.GROUP_COLUMNS
    group_NK = _largest(rows.group_max_NG, min(k, rows.group_max_NG.shape[1])).sort(-1).values
    logits_NC = triton_forward.logits_at(product, group_NK, columns=wide)
    at_NK = _largest(logits_NC, k)
    ids_NK = group_NK.gather(-1, at_NK // wide) * wide + at_NK % wide
    logp2_NK = logits_NC.gather(-1, at_NK) - rows.logsumexp2_N[:, None]
    return ids_NK, logp2_NK.clamp(max=0.0) * (1 / LOG2E)


def _largest(value_NC: Tensor, k: int) -> Tensor:
    """The columns [N, K] of the k largest values in order, of equals the first, and NaN first.

    torch.topk by itself leaves the order of ties open; integers that contain the column have none.
    """
    bits_NC = (value_NC + 0.0).masked_fill(value_NC.isnan(), torch.inf).view(torch.int32).long()
    ordered_NC = torch.where(bits_NC < 0, bits_NC ^ 0x7FFFFFFF, bits_NC)
    column_C = torch.arange(value_NC.shape[1], device=value_NC.device)
    return ((ordered_NC << 32) | (0xFFFFFFFF - column_C)).topk(k, -1).indices

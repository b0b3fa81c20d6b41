"""Gradients of the statistics by hidden states, head and bias, for any gradients of the outputs.

Shapes: N tokens, H hidden, V vocabulary, K top-k, J tiles of columns, W columns of a slice.

    d logit_v = p_v (a + b log2 p_v) + g [v = target] + q p_v [v in anchors]
    a = d logsumexp - d logp - d entropy * entropy - d anchor,  b = -log(2) d entropy
    g = d logp,  q = d anchor / mass of the anchors

all of it times 1 / temperature and the slope of the soft cap. `stash` overwrites the
exponentials that the forward pass kept (3 products in all), `recompute` computes the logits again
in slices of the vocabulary (4 products). Both round it once, to the dtype of the hidden states.
"""

from typing import NamedTuple

import torch
import triton
from torch import Tensor

from rlvr_cli.kernels.products import add_product, set_product, times_unit, wide_product
from rlvr_cli.kernels.sizes import SLICE_BYTES
from rlvr_cli.kernels.triton_backward import chosen_kernel, slice_kernel, stash_kernel
from rlvr_cli.kernels.triton_tiles import LN2, Product
from rlvr_cli.kernels.triton_upstream import Upstream, later, sources

_SLICE_COLUMNS = 8192
_PASS_COLUMNS = 8192  # of a row of the stash that one program turns into the gradient


class Gradients(NamedTuple):
    hidden_NH: Tensor | None
    head_VH: Tensor | None
    bias_V: Tensor | None


def stash(
    product: Product,
    upstream: Upstream,
    stash_NV: Tensor,
    largest_JN: Tensor,
    needs: tuple[bool, bool, bool],
    main_VH: Tensor | None,
) -> Gradients:
    """From the exponentials that the forward pass kept, which are overwritten.

    Rows without gradient are left out: the GPU computes their number, and the host waits for it
    only when the gradient by the logits is running.
    """
    active_N = upstream.active_N
    source_N, count_1 = sources(active_N)
    waited = later(count_1)
    unit = upstream.unit(product.hidden_NH.dtype)
    form_in_place(product, upstream.over(unit), stash_NV, largest_JN, source_N, count_1)
    count = waited()
    by_logits_NV, source_N = stash_NV[:count], source_N[:count]
    hidden_NH = product.hidden_NH if count == len(active_N) else product.hidden_NH[source_N]
    gradients = Gradients(None, None, None)
    if needs[0]:
        by_hidden_NH = times_unit(wide_product(by_logits_NV, product.head_VH[: product.size]), unit)
        by_hidden_NH = by_hidden_NH.to(product.hidden_NH.dtype)
        gradients = gradients._replace(hidden_NH=_spread(by_hidden_NH, source_N, len(active_N)))
    if needs[1]:
        gradients = gradients._replace(
            head_VH=_by_head(product, by_logits_NV, hidden_NH, unit, main_VH)
        )
    if needs[2]:
        by_bias_V = times_unit(by_logits_NV.sum(0, dtype=torch.float32), unit)
        gradients = gradients._replace(bias_V=_padded(product, by_bias_V))
    return gradients


def form_in_place(
    product: Product,
    rows: Upstream,
    stash_NV: Tensor,
    largest_JN: Tensor,
    source_N: Tensor,
    count_1: Tensor,
) -> None:
    """Row i < count of the stash becomes the gradient by the logits of its row source_N[i]."""
    tiles = max(1, _PASS_COLUMNS // product.tiles.columns)
    by_cap, inverse = _by_cap(product), 1.0 / product.temperature
    # One dimension, as a GPU takes no more than 65,535 programs in a second.
    stash_kernel[(triton.cdiv(len(largest_JN), tiles) * len(source_N),)](
        stash_NV,
        stash_NV.stride(0),
        source_N,
        count_1,
        largest_JN,
        rows.logsumexp2_N,
        rows.a_N,
        rows.b_N,
        largest_JN.shape[1],
        product.size,
        by_cap,
        inverse,
        ENTROPY=rows.entropy,
        CAP=product.softcap is not None,
        BN=product.tiles.columns,
        R=tiles,
        J=len(largest_JN),
        num_warps=8,
    )
    _put_chosen(product, rows, stash_NV, source_N, count_1, 0, target=True)


def _put_chosen(
    product: Product,
    rows: Upstream,
    by_logits_NW: Tensor,
    source_N: Tensor,
    count_1: Tensor,
    first: int,
    *,
    target: bool,
) -> None:
    k = rows.topk_NK.shape[1]
    if not (k or target):
        return
    chosen_kernel[(len(source_N),)](
        by_logits_NW,
        by_logits_NW.stride(0),
        source_N,
        count_1,
        *rows[:9],
        first,
        by_logits_NW.shape[1],
        _by_cap(product),
        1.0 / product.temperature,
        K=k,
        KP=triton.next_power_of_2(max(1, k)),
        CAP=product.softcap is not None,
        TARGET=target,
        num_warps=1,
    )


def recompute(
    product: Product,
    upstream: Upstream,
    needs: tuple[bool, bool, bool],
    main_VH: Tensor | None,
) -> Gradients:
    """From logits computed again, a slice of the vocabulary at a time.

    Rows without gradient are left out.
    """
    active_N = upstream.active_N
    source_N = active_N.nonzero()[:, 0]
    count = len(active_N)
    if len(source_N) < count:
        upstream = upstream.take(source_N)
        product = product._replace(hidden_NH=product.hidden_NH[source_N])
    hidden_NH, head_VH, size = product.hidden_NH, product.head_VH, product.size
    unit = upstream.unit(product.hidden_NH.dtype)
    rows = upstream.over(unit)
    device, dtype = hidden_NH.device, hidden_NH.dtype
    by_hidden_NH = torch.zeros(hidden_NH.shape, device=device) if needs[0] else None
    by_head_VH = None
    if needs[1] and main_VH is None:
        by_head_VH = torch.empty_like(head_VH, dtype=_head_dtype(head_VH))
        by_head_VH[size if len(hidden_NH) else 0 :] = 0
    by_bias_V = torch.zeros(size, device=device) if needs[2] else None
    width = _slice_width(product)
    buffer = torch.empty(len(hidden_NH) * width, dtype=dtype, device=device)
    every_N = torch.arange(len(hidden_NH), device=device)
    count_1 = torch.full((1,), len(hidden_NH), dtype=torch.int32, device=device)
    for first in range(0, size if len(hidden_NH) else 0, width):
        wide = min(width, size - first)
        # The copy engine needs rows at multiples of 16 bytes.
        by_logits_NW = buffer.view(len(hidden_NH), width)[:, :wide]
        _fill_slice(product, rows, by_logits_NW, first)
        _put_chosen(product, rows, by_logits_NW, every_N, count_1, first, target=False)
        cut = slice(first, first + wide)
        if by_hidden_NH is not None:
            add_product(by_hidden_NH, by_logits_NW, head_VH[cut])
        if main_VH is not None and needs[1]:
            add_product(main_VH[cut], by_logits_NW.t(), hidden_NH, unit)
        elif by_head_VH is not None:
            set_product(by_head_VH[cut], by_logits_NW.t(), hidden_NH, unit)
        if by_bias_V is not None:
            by_bias_V[cut] = by_logits_NW.sum(0, dtype=torch.float32)
    del buffer
    if by_hidden_NH is not None:
        hidden_grad_NH = times_unit(by_hidden_NH, unit).to(dtype)
        by_hidden_NH = _spread(hidden_grad_NH, source_N, count)
    if by_bias_V is not None:
        by_bias_V = _padded(product, times_unit(by_bias_V, unit))
    return Gradients(by_hidden_NH, by_head_VH, by_bias_V)


def _fill_slice(product: Product, rows: Upstream, by_logits_NW: Tensor, first: int) -> None:
    wide = by_logits_NW.shape[1]
    slice_kernel[product.grid(wide)](
        *product.arguments(),
        product.output(by_logits_NW),
        by_logits_NW.stride(0),
        rows.target_N,
        rows.target_logit_N,
        rows.logsumexp2_N,
        rows.a_N,
        rows.b_N,
        rows.g_N,
        first,
        wide,
        _by_cap(product),
        1.0 / product.temperature,
        **product.constants(),
        DTYPE=product.dtype,
    )


def _slice_width(product: Product) -> int:
    """A multiple of the tile: 8,192 columns, or what takes 128 to 256 MiB; 2,048 at least.

    Few rows get wider slices, for fewer launches, as long as a float32 gradient of the head's
    slice takes no more than 256 MiB.
    """
    columns, (count, hidden) = product.tiles.columns, product.hidden_NH.shape
    row_bytes = max(1, count) * product.hidden_NH.element_size()
    wide = max(_SLICE_COLUMNS, min(SLICE_BYTES // 2 // row_bytes, SLICE_BYTES // 4 // hidden))
    wide = min(wide, max(2048, SLICE_BYTES // row_bytes), product.size)
    return -(-wide // columns) * columns


def _by_cap(product: Product) -> float:
    return LN2 * product.temperature / (product.softcap or 1.0)


def _by_head(
    product: Product,
    by_logits_NV: Tensor,
    hidden_NH: Tensor,
    unit: Tensor | None,
    main_VH: Tensor | None,
) -> Tensor | None:
    """Into `main_VH`, a float32 sum of gradients, if there is one, else a new tensor."""
    head_VH, size = product.head_VH, product.size
    if main_VH is not None:
        add_product(main_VH[:size], by_logits_NV.t(), hidden_NH, unit)
        return None
    by_head_VH = torch.empty_like(head_VH, dtype=_head_dtype(head_VH))
    by_head_VH[size:] = 0
    set_product(by_head_VH[:size], by_logits_NV.t(), hidden_NH, unit)
    return by_head_VH


def _head_dtype(head_VH: Tensor) -> torch.dtype:
    """The dtype of the head's gradient: float32 where the parameter asks for it."""
    asked = getattr(head_VH, "grad_dtype", None)
    return asked if head_VH.is_leaf and asked is not None else head_VH.dtype


def _padded(product: Product, value_V: Tensor) -> Tensor:
    padded_V = torch.zeros(
        len(product.head_VH), dtype=product.hidden_NH.dtype, device=value_V.device
    )
    padded_V[: product.size] = value_V
    return padded_V


def _spread(value_NH: Tensor, rows_N: Tensor, count: int) -> Tensor:
    if len(rows_N) == count:
        return value_NH
    out_NH = torch.zeros(count, value_NH.shape[1], dtype=value_NH.dtype, device=value_NH.device)
    out_NH[rows_N] = value_NH
    return out_NH

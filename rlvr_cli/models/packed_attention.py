"""Causal attention within rows that follow one another in memory, without padding between them.

FlashAttention's forward and backward pass as torch has them; the backward pass adds up in one
order, so that equal rows have equal gradients to the bit.

Shapes: B rows, S tokens of all of them, H heads, D head size.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from rlvr_cli.models import key_heads

NAME = "rlvr-packed"  # among the attentions of transformers
_MOST_HEAD_SIZE = 256
_LEAST_CAPABILITY = (8, 0)
Attention = Callable[..., "tuple[Tensor, None]"]  # as transformers calls it


class Ends(NamedTuple):
    """Where rows end, int32 [B + 1] from 0 on, and the longest of them, on the host."""

    at: Tensor
    longest: Tensor


@contextlib.contextmanager
def of(model: Any, attention: Attention | None = None) -> Iterator[None]:
    """Has a model of transformers attend so, within the context; its calls pass `packed`, `Ends`.

    A backward pass that recomputes activations must be within the context too.
    """
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, attention or attend)
    before = model.config._attn_implementation
    model.set_attn_implementation(NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def is_fast(model: Any) -> bool:
    """Whether FlashAttention runs on a model's device, for heads of its size, in bfloat16."""
    device, size = model.device, head_size(model)
    return bool(
        device.type == "cuda"
        and torch.version.cuda
        and torch.cuda.get_device_capability(device) >= _LEAST_CAPABILITY
        and 0 < size <= _MOST_HEAD_SIZE
        and not size % 8
    )


def head_size(model: Any) -> int:
    """The largest of any layer; 0 of a model without attention."""
    return max((heads.size for heads in key_heads.of(model.config)), default=0)


@torch.library.custom_op("rlvr::packed_attention", mutates_args=())
def flash(
    q_SHD: Tensor, k_SHD: Tensor, v_SHD: Tensor, ends: Tensor, longest: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    size = int(longest)
    out_SHD, lse_HS = torch.ops.aten._flash_attention_forward(
        q_SHD, k_SHD, v_SHD, ends, ends, size, size, 0.0, True, False, scale=scale
    )[:2]
    return out_SHD, lse_HS


@torch.library.custom_op("rlvr::packed_attention_backward", mutates_args=())
def _flash_backward(
    by_out: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor,
    ends: Tensor, longest: Tensor, scale: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """In one order of summation, so that equal rows have equal gradients to the bit."""
    size, unused = int(longest), torch.empty(2, dtype=torch.uint64, device=q.device)
    with _deterministic():
        by_q, by_k, by_v = torch.ops.aten._flash_attention_backward(
            by_out.contiguous(), q, k, v, out, lse, ends, ends, size, size, 0.0, True,
            unused, unused, scale=scale,
        )  # fmt: skip
    return by_q, by_k, by_v


def differentiate(forward: Any, backward: Any) -> None:
    """Joins two operations of FlashAttention's: shapes for torch.compile, and the gradient."""

    def outputs(q_SHD: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
        heads, total = q_SHD.shape[1], q_SHD.shape[0]
        return torch.empty_like(q_SHD), q_SHD.new_empty((heads, total), dtype=torch.float32)

    def gradients(by_out: Tensor, *inputs: Any) -> tuple[Tensor, ...]:
        return tuple(map(torch.empty_like, inputs[:3]))

    def by_inputs(ctx: Any, by_out: Tensor, by_lse: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, ends, longest, out, lse = ctx.saved_tensors
        by_qkv = backward(by_out, q, k, v, out, lse, ends, longest, ctx.scale)
        return (*by_qkv, None, None, None)

    forward.register_fake(outputs)
    backward.register_fake(gradients)
    forward.register_autograd(by_inputs, setup_context=_keep)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.scale = inputs
    ctx.save_for_backward(*tensors, *output)


differentiate(flash, _flash_backward)


@contextlib.contextmanager
def _deterministic() -> Iterator[None]:
    settings: Any = torch.utils.deterministic
    before = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    fills = settings.fill_uninitialized_memory
    settings.fill_uninitialized_memory = False
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warns)
        settings.fill_uninitialized_memory = fills


def _plain(q_SHD: Tensor, k_SHD: Tensor, v_SHD: Tensor, ends: Ends, scale: float) -> Tensor:
    """By the definition, row by row, for what FlashAttention does not run on."""
    outputs = []
    sizes = ends.at.diff().tolist()
    split = (torch.split(v.transpose(0, 1)[None], sizes, dim=2) for v in (q_SHD, k_SHD, v_SHD))
    for q_1HSD, k_1HSD, v_1HSD in zip(*split, strict=True):
        out_1HSD = functional.scaled_dot_product_attention(
            q_1HSD, k_1HSD, v_1HSD, is_causal=True, scale=scale, enable_gqa=True
        )
        outputs.append(out_1HSD[0].transpose(0, 1))
    return torch.cat(outputs)


def attend(
    module: Any, q_1HSD: Tensor, k_1HSD: Tensor, v_1HSD: Tensor, mask: Any = None, *,
    packed: Ends, scaling: float | None = None, kernel: Any = flash, **_: Any,
) -> tuple[Tensor, None]:  # fmt: skip
    """Causal attention within each row, as transformers calls it; its output is [1, S, H, D]."""
    q, k, v = (value[0].transpose(0, 1) for value in (q_1HSD, k_1HSD, v_1HSD))
    scale = q.shape[-1] ** -0.5 if scaling is None else scaling
    if q.is_cuda and q.element_size() == 2:
        return kernel(q, k, v, packed.at, packed.longest, scale)[0][None], None
    return _plain(q, k, v, packed, scale)[None], None

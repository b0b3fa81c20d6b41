"""What the layers of a model attend to during sampling: static caches, or full prompts.

For any transformers model whose attention goes through AttentionInterface: the function registered
there takes the caches from the keyword arguments of the model's forward.

Shapes: B rows that are decoded, P prompts, S tokens of the longest, R rows of either, H query
heads, K key heads, D head size, L positions of the cache.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import AttentionInterface

from rlvr_cli.errors import UsageError
from rlvr_cli.kernels import dispatch
from rlvr_cli.kernels.coded import CodedCache

_NAME = "rlvr-static"
INSTEAD = "sample with --engine transformers or --engine vllm"


class Heads(NamedTuple):
    """What a layer attends with, and how; [R, heads, S, D]."""

    query: Tensor
    key: Tensor
    value: Tensor
    scale: float
    window: int  # how many last positions are visible; 0: all
    softcap: float  # 0: none


class Cached(NamedTuple):
    """A new token of each row at its own position in one layer's cache."""

    keys_BKLD: Tensor
    values_BKLD: Tensor
    position_B: Tensor
    by_rows: bool = False  # whether the tiles of the kernel depend on the number of rows

    def attend(self, layer: int | None, new: Heads) -> Tensor:
        attended_BHD: Tensor = _attend(
            *(value[:, :, 0] for value in (new.query, new.key, new.value)), *self[:3],
            new.scale, new.window, new.softcap, self.by_rows,
        )  # fmt: skip
        return attended_BHD[:, None]


class CachedCodes(NamedTuple):
    """The same in a cache of int8."""

    cache: CodedCache
    position_B: Tensor

    def attend(self, layer: int | None, new: Heads) -> Tensor:
        attended_BHD: Tensor = _attend_coded(
            *(value[:, :, 0] for value in (new.query, new.key, new.value)), *self.cache,
            self.position_B, new.scale, new.window, new.softcap,
        )  # fmt: skip
        return attended_BHD[:, None]


@torch.library.custom_op("rlvr::attend", mutates_args=("keys_BKLD", "values_BKLD"))
def _attend(
    query_BHD: Tensor, key_BKD: Tensor, value_BKD: Tensor,
    keys_BKLD: Tensor, values_BKLD: Tensor, position_B: Tensor,
    scale: float, window: int, softcap: float, by_rows: bool,
) -> Tensor:  # fmt: skip
    """`kernels.attention.attend`, into which torch.compile does not see."""
    return dispatch.attend(
        query_BHD, key_BKD, value_BKD, keys_BKLD, values_BKLD, position_B,
        scale=scale, window=window, softcap=softcap, by_rows=by_rows,
    )  # fmt: skip


@_attend.register_fake
def _(query_BHD: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(query_BHD, memory_format=torch.contiguous_format)


@torch.library.custom_op(
    "rlvr::attend_coded", mutates_args=("keys_BKLD", "values_BKMD2", "scales_BKL2")
)
def _attend_coded(
    query_BHD: Tensor, key_BKD: Tensor, value_BKD: Tensor,
    keys_BKLD: Tensor, values_BKMD2: Tensor, scales_BKL2: Tensor, shift_BKD: Tensor,
    position_B: Tensor, scale: float, window: int, softcap: float,
) -> Tensor:  # fmt: skip
    """`kernels.coded.attend`, as one operation."""
    return dispatch.attend_coded(
        query_BHD, key_BKD, value_BKD, CodedCache(keys_BKLD, values_BKMD2, scales_BKL2, shift_BKD),
        position_B, scale=scale, window=window, softcap=softcap,
    )  # fmt: skip


@_attend_coded.register_fake
def _(query_BHD: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(query_BHD, memory_format=torch.contiguous_format)


@torch.library.custom_op("rlvr::causal", mutates_args=())
def _causal(
    query_PHSD: Tensor, key_PKSD: Tensor, value_PKSD: Tensor,
    scale: float, window: int, softcap: float,
) -> Tensor:  # fmt: skip
    """`kernels.triton_causal.causal`, as one operation."""
    attended_PSHD: Tensor = dispatch.kernels("triton_causal").causal(
        query_PHSD, key_PKSD, value_PKSD, scale=scale, window=window, softcap=softcap
    )
    return attended_PSHD


def causal(heads: Heads, *, by_kernel: bool = False) -> Tensor:
    """The attention of full prompts, [P, S, H, D]; padding at the right is never attended to.

    By a kernel whose bits for a prompt do not depend on the others.
    """
    query_PHSD, key_PKSD, value_PKSD, scale, window, softcap = heads
    if by_kernel:
        attended_PSHD: Tensor = _causal(*heads)
        return attended_PSHD
    length = query_PHSD.shape[2]
    position_S = torch.arange(length, device=query_PHSD.device)
    seen_SS = position_S[:, None] >= position_S
    if window:
        seen_SS &= position_S[:, None] - position_S < window
    if not softcap:
        narrow = 0 < window < length
        attended_PHSD = torch.nn.functional.scaled_dot_product_attention(
            query_PHSD, key_PKSD, value_PKSD, attn_mask=seen_SS if narrow else None,
            is_causal=not narrow, scale=scale, enable_gqa=True,
        )  # fmt: skip
        return attended_PHSD.transpose(1, 2)
    group = query_PHSD.shape[1] // key_PKSD.shape[1]
    key_PHSD, value_PHSD = (v.repeat_interleave(group, 1) for v in (key_PKSD, value_PKSD))
    score_PHSS = (query_PHSD @ key_PHSD.mT).float() * scale
    score_PHSS = (score_PHSS / softcap).tanh() * softcap
    weight_PHSS = score_PHSS.masked_fill(~seen_SS, -torch.inf).softmax(-1)
    return (weight_PHSS.to(value_PHSD.dtype) @ value_PHSD).transpose(1, 2)


def _attention(
    module: Any,
    query_RHSD: Tensor,
    key_RKSD: Tensor,
    value_RKSD: Tensor,
    attention_mask: Any = None,
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    static: Any = None,
    s_aux: Any = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in every layer; [R, S, H, D]."""
    if static is None or s_aux is not None:
        raise UsageError(
            f"the attention of {type(module).__name__} does not work with a static cache", INSTEAD
        )
    scale = query_RHSD.shape[-1] ** -0.5 if scaling is None else scaling
    heads = Heads(query_RHSD, key_RKSD, value_RKSD, scale, sliding_window or 0, softcap or 0.0)
    # a compiled layer, shared by all, is given its cache and does not look at its number
    layer = None if isinstance(static, (Cached, CachedCodes)) else module.layer_idx
    return static.attend(layer, heads), None


AttentionInterface.register(_NAME, _attention)


@contextlib.contextmanager
def attending(*models: Any) -> Iterator[None]:
    """Switches models to this attention within the context; a trainer may share them."""
    previous = [model.config._attn_implementation for model in models]
    for model in models:
        model.set_attn_implementation(_NAME)
    try:
        yield
    finally:
        for model, name in zip(models, previous, strict=True):
            model.set_attn_implementation(name)

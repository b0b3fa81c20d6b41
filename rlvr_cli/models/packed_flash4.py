"""FlashAttention 4 in the place of torch's FlashAttention 2: `--trainer local:attention=flash4`.

The package flash-attn-4 is in beta, so that a model's heads are tried against torch's first. Its
backward pass adds up in one order here, so that equal rows have equal gradients to the bit.

Shapes: S tokens of all rows, H heads, K key heads, D head size.
"""

import importlib.util
from typing import Any

import torch
from torch import Tensor

from rlvr_cli.errors import UsageError, first_line
from rlvr_cli.models import packed_attention

_LEAST_CAPABILITY = (9, 0)
_SIZES = (200, 1, 77, 129)  # of the rows that are tried
_FAR = 0.02  # of a result's norm; roundings of bfloat16 are below 0.005


@torch.library.custom_op("rlvr::packed_flash4", mutates_args=())
def flash(
    q_SHD: Tensor, k_SKD: Tensor, v_SKD: Tensor, ends: Tensor, longest: Tensor, scale: float
) -> tuple[Tensor, Tensor]:
    out_SHD, lse_HS = _interface()._flash_attn_fwd(
        q_SHD, k_SKD, v_SKD, softmax_scale=scale, return_lse=True, **_rows(ends, longest)
    )[:2]
    return out_SHD, lse_HS


@torch.library.custom_op("rlvr::packed_flash4_backward", mutates_args=())
def _backward(
    by_out: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor,
    ends: Tensor, longest: Tensor, scale: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    by_q, by_k, by_v = _interface()._flash_attn_bwd(
        q, k, v, out, by_out.contiguous(), lse, softmax_scale=scale, deterministic=True,
        **_rows(ends, longest),
    )[:3]  # fmt: skip
    return by_q, by_k, by_v


packed_attention.differentiate(flash, _backward)


def attend(*inputs: Any, **options: Any) -> tuple[Tensor, None]:
    """`packed_attention.attend`, by FlashAttention 4."""
    return packed_attention.attend(*inputs, kernel=flash, **options)


def _interface() -> Any:
    import flash_attn.cute.interface

    return flash_attn.cute.interface


def _rows(ends: Tensor, longest: Tensor) -> dict[str, Any]:
    size = int(longest)
    sizes = {"cu_seqlens_q": ends, "cu_seqlens_k": ends}
    return sizes | {"max_seqlen_q": size, "max_seqlen_k": size, "causal": True}


def check(model: Any) -> None:
    """Refuses where it does not run, or gives something else than torch's FlashAttention."""
    without = "leave attention=flash4 out"
    if importlib.util.find_spec("flash_attn") is None:
        raise UsageError("FlashAttention 4 is not installed", "pip install 'rlvr[flash4]'")
    if not packed_attention.is_fast(model) or (
        torch.cuda.get_device_capability(model.device) < _LEAST_CAPABILITY
    ):
        raise UsageError("FlashAttention 4 needs a GPU of compute capability 9.0", without)
    try:
        gap = _gap(model)
    except Exception as error:  # of a package in beta, and of the compiler below it
        raise UsageError(
            f"FlashAttention 4 does not run: {type(error).__name__}: {first_line(error)}", without
        ) from error
    if not gap < _FAR:
        raise UsageError(
            f"FlashAttention 4 is off by {gap:.3f} of torch's attention for these heads", without
        )


def _gap(model: Any) -> float:
    """The largest distance of output and gradients to torch's, over their norms."""
    config = model.config.get_text_config()
    heads, key_heads = config.num_attention_heads, config.num_key_value_heads
    size = packed_attention.head_size(model)
    rng = torch.Generator(model.device).manual_seed(0)
    counts = (heads, key_heads, key_heads, heads)
    q, k, v, by_out = (
        torch.randn(
            sum(_SIZES), count, size, generator=rng, device=model.device, dtype=torch.bfloat16
        )
        for count in counts
    )
    ends = torch.tensor([0, *_SIZES], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    last = (ends.to(model.device), torch.tensor(max(_SIZES), dtype=torch.int32), size**-0.5)

    def results(attend: Any) -> list[Tensor]:
        mine = [value.clone().requires_grad_() for value in (q, k, v)]
        out = attend(*mine, *last)[0]
        return [out.detach(), *torch.autograd.grad(out, mine, by_out)]

    pairs = zip(results(flash), results(packed_attention.flash), strict=True)
    gaps = [float((one.double() - two.double()).norm() / two.double().norm()) for one, two in pairs]
    return max(gaps) if all(gap == gap for gap in gaps) else torch.inf

"""`reference`, `drawing`, `attention` and `coded`, by Triton kernels where those can run.

RLVR_KERNELS=auto, the default, uses the kernels on a GPU and warns once, with the reason, if it
cannot; triton uses them or raises Unsupported with the reason; reference never uses them. With
TRITON_INTERPRET=1, triton runs on a CPU too, slowly.
"""

import functools
import importlib
import importlib.util
import os
import warnings
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from rlvr_cli.kernels import attention, coded, drawing, reference
from rlvr_cli.kernels.checks import BadInput as BadInput
from rlvr_cli.kernels.coded import CodedCache
from rlvr_cli.kernels.reference import Sample, TokenStats

VARIABLE = "RLVR_KERNELS"
_CHOICES = ("auto", "triton", "reference")
_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
_LEAST_CAPABILITY = (8, 0)
_LEAST_TORCH = (2, 8)  # products of halves with a float32 result
_MOST_K = 64


class Unsupported(RuntimeError):
    """The choice of RLVR_KERNELS cannot run; the message says why."""


def token_stats(hidden_NH: Tensor, head_VH: Tensor, target_N: Tensor, **options: Any) -> TokenStats:
    """See `reference.token_stats`."""
    topk_NK = options.get("topk_NK")
    k = 0 if topk_NK is None else topk_NK.shape[-1]
    module = _module("triton_stats", hidden_NH, k)
    stats: TokenStats = module.token_stats(hidden_NH, head_VH, target_N, **options)
    return stats


def top_k(hidden_NH: Tensor, head_VH: Tensor, k: int, **options: Any) -> tuple[Tensor, Tensor]:
    """See `reference.top_k`."""
    module = _module("triton_stats", hidden_NH, k)
    likeliest: tuple[Tensor, Tensor] = module.top_k(hidden_NH, head_VH, k, **options)
    return likeliest


def collision(hidden_NH: Tensor, head_VH: Tensor, **options: Any) -> Tensor:
    """See `reference.collision`, which runs everywhere: no kernel has it."""
    return reference.collision(hidden_NH, head_VH, **options)


def sample(policy_BV: Tensor, seed_B: Tensor, position: int, **options: Any) -> Sample:
    """See `reference.sample`."""
    module = _module("triton_sample", policy_BV)
    sampled: Sample = module.sample(policy_BV, seed_B, position, **options)
    return sampled


def draw(policy_BV: Tensor, seed_B: Tensor, position_B: Tensor, **options: Any) -> Sample:
    """See `drawing.draw`."""
    module = _module("triton_draw", policy_BV, plain=drawing)
    drawn: Sample = module.draw(policy_BV, seed_B, position_B, **options)
    return drawn


def attend(query_BHD: Tensor, *values: Tensor, **options: Any) -> Tensor:
    """See `attention.attend`."""
    module = _module("triton_attention", query_BHD, plain=attention)
    attended_BHD: Tensor = module.attend(query_BHD, *values, **options)
    return attended_BHD


def attend_coded(
    query_BHD: Tensor, key_BKD: Tensor, value_BKD: Tensor, cache: CodedCache, position_B: Tensor,
    **options: Any,
) -> Tensor:  # fmt: skip
    """See `coded.attend`."""
    module = _module("triton_coded", query_BHD, plain=coded)
    given = (query_BHD, key_BKD, value_BKD, cache, position_B)
    attended_BHD: Tensor = module.attend(*given, **options)
    return attended_BHD


def kernels(name: str) -> ModuleType:
    """A file of kernels without a reference, where `reason_against` has none against them."""
    return importlib.import_module(f"rlvr_cli.kernels.{name}")


def choice() -> str:
    chosen = os.environ.get(VARIABLE, "auto")
    if chosen not in _CHOICES:
        raise Unsupported(f"{VARIABLE} is `{chosen}`, it may be {', '.join(_CHOICES)}")
    return chosen


def reason_against(value: Tensor, k: int = 0) -> str | None:
    """Why the kernels cannot take such a tensor, or so many top-k; None if they can."""
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed"
    if not value.is_cuda and os.environ.get("TRITON_INTERPRET") != "1":
        return f"the tensors are on {value.device}, the kernels need a GPU"
    if value.is_cuda and (card := _card(value.device)):
        return card
    if value.dtype not in _DTYPES:
        return f"the tensors are {value.dtype}, the kernels take bfloat16, float16 and float32"
    if k > _MOST_K:
        return f"{k} top-k tokens are requested, the kernels take {_MOST_K}"
    return None


@functools.cache
def _card(device: torch.device) -> str | None:
    if torch.version.hip:
        return "the kernels were not tried on AMD's cards"
    if tuple(map(int, torch.__version__.split(".")[:2])) < _LEAST_TORCH:
        return f"torch is {torch.__version__}, 2.8 is needed"
    capability = torch.cuda.get_device_capability(device)
    if capability < _LEAST_CAPABILITY:
        name = torch.cuda.get_device_name(device)
        return f"{name} has compute capability {capability[0]}.{capability[1]}, 8.0 is needed"
    return None


def _module(name: str, value: Tensor, k: int = 0, *, plain: ModuleType = reference) -> ModuleType:
    chosen = choice()
    if chosen == "reference" or (chosen == "auto" and not value.is_cuda):
        return plain
    if reason := reason_against(value, k):
        if chosen == "triton":
            raise Unsupported(f"{VARIABLE} is triton, but {reason}")
        _say(reason)
        return plain
    return kernels(name)


@functools.cache
def _say(reason: str) -> None:
    warnings.warn(f"the reference is used, not the kernels: {reason}", stacklevel=5)

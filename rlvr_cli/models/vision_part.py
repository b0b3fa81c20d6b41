"""The vision tower and the projector of a policy that reads images."""

import re
from collections.abc import Iterator
from typing import Any

from rlvr_cli.errors import UsageError


def freeze(model: Any) -> None:
    """Leaves the vision part out of training, in place."""
    for name in _names(model):
        model.get_submodule(name).requires_grad_(False)


def is_adapted(model: Any) -> bool:
    """Whether the vision part has adapters."""
    if not any("lora_" in name for name, _ in model.named_parameters()):
        return False
    return any(
        "lora_" in parameter
        for name in _names(model)
        for parameter, _ in model.get_submodule(name).named_parameters()
    )


def pattern(model: Any) -> str:
    """A regular expression of the names of all modules of the vision part, as peft matches it."""
    return rf"({'|'.join(map(re.escape, _names(model)))})(\..*)?"


def parameters(model: Any) -> int:
    """The number of weights of the vision part."""
    return sum(p.numel() for name in _names(model) for p in model.get_submodule(name).parameters())


def _names(model: Any) -> list[str]:
    """The modules next to the language model, or next to the module that contains it."""
    decoder = model.get_decoder()
    path = next((name for name, module in model.named_modules() if module is decoder), "")
    names = list(_beside(model, path)) if path else []
    if not names:
        raise UsageError(
            f"the vision part of {type(model).__name__} is not known",
            "train all of it with --train-vision",
        )
    return names


def _beside(model: Any, path: str) -> Iterator[str]:
    """The siblings of a module and of those that it is in, without the output head."""
    head, here = model.get_output_embeddings(), ""
    for step in path.split("."):
        for child, module in model.get_submodule(here).named_children():
            if child != step and module is not head:
                yield f"{here}.{child}".lstrip(".")
        here = f"{here}.{step}".lstrip(".")

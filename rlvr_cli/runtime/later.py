"""Modules that take seconds to import, imported when something of them is first used.

A command that reads a configuration, or checks one, is done before anything of them is.
"""

import contextlib
import functools
import gc
import importlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Later:
    """Stands for a module, which the first use of an attribute imports."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if self._name not in sys.modules:
            with _uncollected():
                importlib.import_module(self._name)
        return getattr(sys.modules[self._name], attribute)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """No garbage collection meanwhile: imports make many objects, and hardly any garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@functools.cache
def import_transformers() -> None:
    """Imports what transformers needs for a causal language model, in less time.

    Where scikit-learn and scipy are installed transformers imports them, for assisted generation
    and for the losses of object detection, which rlvr does not use: that takes a second.
    """
    with _uncollected():
        from transformers import utils

        unused = ("is_sklearn_available", "is_scipy_available")
        originals = {name: getattr(utils, name) for name in unused}
        try:
            for name in unused:
                setattr(utils, name, lambda: False)
            importlib.import_module("transformers.generation.candidate_generator")
            importlib.import_module("transformers.loss.loss_utils")
        finally:
            for name, function in originals.items():
                setattr(utils, name, function)
        importlib.import_module("transformers.modeling_layers")
        importlib.import_module("transformers.models.auto.modeling_auto")
    gc.freeze()  # later collections need not look through all of it


if TYPE_CHECKING:
    import torch as torch
else:
    torch = Later("torch")


def no_grad(function: Callable[P, R]) -> Callable[P, R]:
    """As `torch.no_grad()` decorates a function, which is no generator."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        with torch.no_grad():
            return function(*args, **kwargs)

    return wrapper

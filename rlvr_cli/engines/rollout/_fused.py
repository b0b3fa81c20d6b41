"""One compiled decoder layer, shared by all layers of the same code."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.exc import TorchDynamoException
from torch.fx.experimental import _config as shapes
from transformers.modeling_layers import GradientCheckpointingLayer

from rlvr_cli.errors import UsageError, UserError, first_line

_WITHOUT = "sample with --engine graph:fuse=false, which compiles nothing"


def layers_of(model: Any) -> list[Any]:
    """The decoder layers, in order."""
    return [m for m in model.base_model.modules() if isinstance(m, GradientCheckpointingLayer)]


@contextlib.contextmanager
def fused(model: Any) -> Iterator[None]:
    """Fuses the kernels of each decoder layer with torch.compile, within the context.

    The layers are compiled once, for any number of rows and length of the cache; again for layers
    of another kind, those with a window say. Values are rounded where eager torch rounds them.
    """
    layers = layers_of(model)
    if not layers:
        raise UsageError(
            f"{type(model).__name__} has no decoder layers to compile one by one",
            _WITHOUT,
        )
    for layer in layers:
        number = next(m.layer_idx for m in layer.modules() if hasattr(m, "layer_idx"))
        layer.forward = functools.partial(_run, layer, number)
    try:
        # sizes that happen to be equal, such as rows and heads, must not be unified
        with shapes.patch(use_duck_shape=False):  # type: ignore[attr-defined]
            yield
    except TorchDynamoException as error:
        cause = getattr(error, "inner_exception", error)
        raise UserError(
            f"torch.compile cannot compile a layer of {type(model).__name__}: {first_line(cause)}",
            _WITHOUT,
        ) from error
    finally:
        for layer in layers:
            del layer.forward  # uncovers the one of its class


def _run(layer: Any, number: int, hidden: Tensor, *, static: Any, **options: Any) -> Any:
    return _compiled()(layer, hidden, static=static.of(number), **options)


@functools.cache
def _compiled() -> Any:
    return torch.compile(_layer, dynamic=True, options={"emulate_precision_casts": True})


def _layer(layer: Any, hidden: Tensor, **options: Any) -> Any:
    return type(layer).forward(layer, hidden, **options)

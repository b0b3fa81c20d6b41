"""Decoder layers that torch.compile fuses, all of the same code as one."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from rlvr_cli.errors import UsageError, UserError, first_line
from rlvr_cli.models import processors


def layers_of(model: Any) -> list[Any]:
    """The decoder layers, in order; none of a vision tower."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    decoder = model.get_decoder() if processors.of(model) else model.base_model
    return [m for m in decoder.modules() if isinstance(m, GradientCheckpointingLayer)]


@contextlib.contextmanager
def replaced(model: Any, forward: Callable[[Any], Any], *, without: str) -> Iterator[None]:
    """Within the context each layer runs what `forward` makes of it in place of its own forward.

    `without` is the hint of an error: how to compile nothing.
    """
    from torch._dynamo.exc import TorchDynamoException  # slow to import
    from torch.fx.experimental import _config as shapes

    layers = layers_of(model)
    if not layers:
        raise UsageError(
            f"{type(model).__name__} has no decoder layers to compile one by one", without
        )
    for layer in layers:
        layer.forward = forward(layer)
    try:
        # sizes that happen to be equal, such as rows and heads, must not be unified
        with shapes.patch(use_duck_shape=False):  # type: ignore[attr-defined]
            yield
    except TorchDynamoException as error:
        cause = getattr(error, "inner_exception", error)
        raise UserError(
            f"torch.compile cannot compile a layer of {type(model).__name__}: {first_line(cause)}",
            without,
        ) from error
    finally:
        for layer in layers:
            del layer.forward  # uncovers the one of its class


def for_training(model: Any) -> contextlib.AbstractContextManager[None]:
    """The layers compiled for forward and backward passes of any number of tokens."""
    return replaced(
        model,
        lambda layer: functools.partial(_compiled(), layer),
        without="add fuse=false to --trainer, in another --out if the run was begun",
    )


@functools.cache
def _compiled() -> Any:
    return torch.compile(_layer, dynamic=True)


def _layer(layer: Any, hidden: Any, **options: Any) -> Any:
    return type(layer).forward(layer, hidden, **options)

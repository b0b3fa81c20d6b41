"""One compiled decoder layer, shared by all layers of the same code."""

import contextlib
import functools
from typing import Any

import torch
from torch import Tensor

from rlvr_cli.models import compiled_layers


def fused(model: Any) -> contextlib.AbstractContextManager[None]:
    """Fuses the kernels of each decoder layer with torch.compile, within the context.

    The layers are compiled once, for any number of rows and length of the cache; again for layers
    of another kind, those with a window say. Values are rounded where eager torch rounds them.
    """
    return compiled_layers.replaced(
        model, _bound, without="sample with --engine graph:fuse=false, which compiles nothing"
    )


def _bound(layer: Any) -> Any:
    number = next(m.layer_idx for m in layer.modules() if hasattr(m, "layer_idx"))
    return functools.partial(_run, layer, number)


def _run(layer: Any, number: int, hidden: Tensor, *, static: Any, **options: Any) -> Any:
    return _compiled()(layer, hidden, static=static.of(number), **options)


@functools.cache
def _compiled() -> Any:
    return torch.compile(_layer, dynamic=True, options={"emulate_precision_casts": True})


def _layer(layer: Any, hidden: Tensor, **options: Any) -> Any:
    return type(layer).forward(layer, hidden, **options)

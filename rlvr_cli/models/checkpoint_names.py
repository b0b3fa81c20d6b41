"""A model's weights under the names and with the shapes of its checkpoint's files.

transformers computes with the experts of a layer as one tensor (`experts.gate_up_proj`, [experts,
2 intermediate, hidden]). Most checkpoints, and engines that read them, have one of each expert
(`experts.0.gate_proj.weight`, [intermediate, hidden]) or other names for the same.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

_LAYER = re.compile(r".*?\.\d+\.")


def as_stored(model: Any, named: "Iterable[tuple[str, Tensor]]") -> "Iterator[tuple[str, Tensor]]":
    """Named parameters as the model's checkpoint would hold them, a layer at a time.

    Those that are stored as they are pass through; the others may be copies.
    """
    if not getattr(model, "_weight_conversions", None):
        yield from named
        return
    from transformers.core_model_loading import revert_weight_conversion

    for _, layer in itertools.groupby(named, lambda item: _layer_of(item[0])):
        yield from revert_weight_conversion(model, dict(layer)).items()


def weights_of(model: Any) -> "Iterator[tuple[str, Tensor]]":
    """A model's weights as its checkpoint has them, in the precision that it computes in."""
    named = ((name, parameter.detach()) for name, parameter in model.named_parameters())
    return as_stored(model, named)


def _layer_of(name: str) -> str:
    match = _LAYER.match(name)
    return match.group() if match else name

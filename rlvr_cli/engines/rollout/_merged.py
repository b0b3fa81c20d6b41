"""Linear layers of the same input as one product: queries, keys and values, and gate and up.

One product of more columns fills a GPU better than three, and reads its input once.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from rlvr_cli.models import compiled_layers

_NAMES = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))


class Group:
    """Layers of the same input, and their weights and biases one below the other."""

    def __init__(self, layers: list[torch.nn.Linear]) -> None:
        self.layers = layers
        self.weight = _stacked([layer.weight for layer in layers])
        has_bias = layers[0].bias is not None
        self.bias = _stacked([layer.bias for layer in layers]) if has_bias else None
        self.sizes = [len(layer.weight) for layer in layers]
        self.product: Callable[..., Tensor] = torch.nn.functional.linear
        self.input: Tensor | None = None
        self.outputs: tuple[Tensor, ...] = ()


def groups_of(model: Any) -> list[Group]:
    """The groups of a model's decoder layers; none of layers with adapters or of another kind.

    Afterwards the layers' parameters are parts of their group's, so that neither is there twice
    and an update of the one is one of the other. Parameters that are parts of another tensor
    already, as DeepSpeed's are, stay there: they are a group where they are stacked in memory.
    """
    groups = []
    for layer in compiled_layers.layers_of(model):
        for module in layer.modules():
            children = dict(module.named_children())
            for names in _NAMES:
                linear = [children[name] for name in names if name in children]
                if len(linear) == len(names) and _alike(linear) and _placed(linear):
                    groups.append(Group(linear))
    return groups


def _alike(layers: list[Any]) -> bool:
    if any(type(layer) is not torch.nn.Linear for layer in layers):
        return False
    kinds = {(w.dtype, w.device, w.shape[1], w.requires_grad) for w in (x.weight for x in layers)}
    return len(kinds) == 1 and len({layer.bias is None for layer in layers}) == 1


def _placed(layers: list[torch.nn.Linear]) -> bool:
    """Whether the weights, and biases, adjoin or can be moved so that they do."""
    kinds = [[layer.weight for layer in layers]]
    if layers[0].bias is not None:
        kinds.append([layer.bias for layer in layers])
    return all(_adjoin(parts) or _have_storages(parts) for parts in kinds)


@torch.no_grad()
def _stacked(parts: list[Tensor]) -> Tensor:
    """The parts stacked in one tensor; they are moved there unless they are already."""
    if _adjoin(parts):
        first, rows = parts[0], sum(map(len, parts))
        return first.detach().as_strided((rows, *first.shape[1:]), first.stride())
    stacked = torch.cat([part.detach() for part in parts])
    for part, own in zip(parts, torch.split(stacked, list(map(len, parts))), strict=True):
        part.data = own
    return stacked


def _adjoin(parts: list[Tensor]) -> bool:
    """Whether each part begins where the one before it ends, in the same storage."""
    storages = {part.untyped_storage().data_ptr() for part in parts}
    if len(storages) > 1 or not all(part.is_contiguous() for part in parts):
        return False
    ends = [part.data_ptr() + part.nbytes for part in parts]
    return ends[:-1] == [part.data_ptr() for part in parts[1:]]


def _have_storages(parts: list[Tensor]) -> bool:
    """Whether each part is all that its storage holds."""
    return all(part.untyped_storage().nbytes() == part.nbytes for part in parts)


class _Member(torch.nn.Linear):
    """A layer of a group, within `merged`; torch.compile takes those of all layers as one."""

    group: Group
    index: int

    def forward(self, input: Tensor) -> Tensor:
        """Computes for all of the group unless another layer of it has, for the same input."""
        group = self.group
        if group.input is not input:
            joint = group.product(input, group.weight, group.bias)
            group.input, group.outputs = input, torch.split(joint, group.sizes, -1)
        part = group.outputs[self.index]
        if self.index == len(group.sizes) - 1:
            group.input, group.outputs = None, ()
        return part


@contextlib.contextmanager
def merged(
    groups: list[Group], product: Callable[..., Tensor] = torch.nn.functional.linear
) -> Iterator[None]:
    """Within the context the first layer of a group computes for all of them, by `product`."""
    for group in groups:
        group.product = product
        for index, layer in enumerate(group.layers):
            layer.__class__ = _Member
            vars(layer).update(group=group, index=index)
    try:
        yield
    finally:
        for group in groups:
            group.input, group.outputs = None, ()
            for layer in group.layers:
                layer.__class__ = torch.nn.Linear
                del vars(layer)["group"], vars(layer)["index"]

"""A model whose bits in a row do not depend on which or how many rows are computed together.

On a GPU its linear layers and norms run kernels of fixed order; everything else that it computes
must be elementwise, or it is refused. Without a GPU each row is computed by itself.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from rlvr_cli.errors import UsageError
from rlvr_cli.kernels import dispatch

_WITHOUT = "sample without deterministic=true"
_MOVES = {
    "_to_copy", "_unsafe_view", "amax", "cat", "clone", "copy_", "embedding", "index", "index_put_",
    "index_select", "new_zeros", "stack", "where",
}  # fmt: skip


@torch.library.custom_op("rlvr::product", mutates_args=())
def product(hidden: Tensor, weight_VH: Tensor, bias_V: Tensor | None, wide: bool) -> Tensor:
    """hidden weight^T + bias; in float32 if `wide`. torch.compile does not see into it."""
    flat_NH = hidden.reshape(-1, hidden.shape[-1])
    out_NV: Tensor = dispatch.kernels("triton_invariant").product(
        flat_NH, weight_VH, bias_V, wide=wide
    )
    return out_NV.view(*hidden.shape[:-1], len(weight_VH))


@product.register_fake
def _(hidden: Tensor, weight_VH: Tensor, bias_V: Tensor | None, wide: bool) -> Tensor:
    shape = (*hidden.shape[:-1], weight_VH.shape[0])
    return hidden.new_empty(shape, dtype=torch.float32 if wide else hidden.dtype)


@torch.library.custom_op("rlvr::mean_square", mutates_args=())
def mean_square(values: Tensor) -> Tensor:
    """The mean of the squares of the last dimension, in float32."""
    mean: Tensor = dispatch.kernels("triton_invariant").mean_square(values)
    return mean


@mean_square.register_fake
def _(values: Tensor) -> Tensor:
    return values.new_empty((*values.shape[:-1], 1), dtype=torch.float32)


def by_kernels(model: Any) -> bool:
    """Whether the kernels compute the model, and not each row by itself, as on a CPU."""
    weight = next(model.parameters())
    chosen = dispatch.choice()
    if not weight.is_cuda and chosen != "triton":
        return False
    why = dispatch.reason_against(weight)
    if chosen == "reference":
        why = f"{dispatch.VARIABLE} is reference"
    if why:
        raise UsageError(f"deterministic=true needs the kernels: {why}", _WITHOUT)
    return True


class _Linear(torch.nn.Linear):
    """A linear layer, within `Invariant.layers`."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


def linear(input: Tensor, weight_VH: Tensor, bias_V: Tensor | None = None) -> Tensor:
    """As torch.nn.functional.linear."""
    computed: Tensor = product(input, weight_VH, bias_V, False)
    return computed


def wide_linear(input: Tensor, weight_VH: Tensor) -> Tensor:
    """In float32."""
    computed: Tensor = product(input, weight_VH, None, True)
    return computed


def _rounded(normed: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
    return weight * normed.to(dtype)


def _wide(normed: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
    return (weight * normed).to(dtype)


def _above_one(normed: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
    return (normed * (1.0 + weight.float())).to(dtype)


_SCALINGS = (_rounded, _wide, _above_one)  # of Llama and Qwen, of OLMo, of Gemma


class Invariant:
    """The layers of a model that kernels of fixed order compute, identified once."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._kinds: list[tuple[Any, type]] = []
        for module in model.modules():
            kind: Any = type(module)
            if kind is torch.nn.Linear:
                self._kinds.append((module, _Linear))
            elif kind.__name__.endswith("RMSNorm"):
                self._kinds.append((module, _norm(kind, _scaling_of(module))))

    @contextlib.contextmanager
    def layers(self) -> Iterator[None]:
        """Within the context the kernels compute the layers that are not part of a joint one."""
        before = [(module, type(module)) for module, _ in self._kinds]
        for module, kind in self._kinds:
            if issubclass(kind, type(module)):
                module.__class__ = kind
        try:
            yield
        finally:
            for module, kind in before:
                module.__class__ = kind

    @contextlib.contextmanager
    def checked(self) -> Iterator[None]:
        """`layers`, and refuses the model if it computes anything else that adds numbers up."""
        watch = _Watch()
        with self.layers(), watch:
            yield
        if watch.others:
            raise UsageError(
                f"deterministic=true cannot compute {type(self._model).__name__}: the order of "
                f"the sums of {', '.join(sorted(watch.others))} may depend on the number of rows",
                _WITHOUT,
            )


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Names the operations that are not ours, elementwise, exact or moves of data."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.others: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.partition("::")
        known = (
            name[0] == "rlvr"
            or name[2] in _MOVES
            or func.is_view
            or torch.Tag.pointwise in func.tags
            or not _sums(func, args, result)
        )
        if not known:
            self.others.add(name[2])
        return result


def _sums(func: Any, args: tuple[Any, ...], result: Any) -> bool:
    """Whether an operation may add up numbers that are not integers."""
    if func._schema.name == "aten::bmm":  # the angles of positions: products of one number
        return bool(args[0].shape[-1] > 1)
    results = result if isinstance(result, (tuple, list)) else (result,)
    tensors = [value for value in results if isinstance(value, Tensor)]
    reads = any(isinstance(value, (Tensor, tuple, list)) for value in args)
    return reads and any(value.is_floating_point() for value in tensors)


@functools.cache
def _norm(kind: Any, scaling: Callable[..., Tensor]) -> type:
    """The class of a model's norms, with the mean of squares by the kernel."""

    def forward(self: Any, hidden: Tensor) -> Tensor:
        scale = torch.rsqrt(mean_square(hidden) + _epsilon(self))
        return scaling(hidden.float() * scale, self.weight, hidden.dtype)

    return type(kind.__name__, (kind,), {"forward": forward})


def _epsilon(norm: Any) -> float:
    return float(norm.variance_epsilon if hasattr(norm, "variance_epsilon") else norm.eps)


@torch.no_grad()
def _scaling_of(norm: Any) -> Callable[..., Tensor]:
    """How a norm applies its weight: the one that has the norm's own bits for random values."""
    weight = getattr(norm, "weight", None)
    if weight is not None and weight.ndim == 1:
        rng = torch.Generator().manual_seed(0)
        hidden, other = torch.randn(2, 8, len(weight), generator=rng).to(weight)
        expected = torch.func.functional_call(norm, {"weight": other[0]}, (hidden,))
        wide = hidden.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + _epsilon(norm))
        for scaling in _SCALINGS:
            if torch.equal(scaling(normed, other[0], hidden.dtype), expected):
                return scaling
    raise UsageError(
        f"deterministic=true cannot compute a {type(norm).__name__} of this model", _WITHOUT
    )

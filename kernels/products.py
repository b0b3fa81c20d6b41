"""Matrix products of halves with float32 sums, by cuBLAS on a GPU.

A unit is a power of 2 that float16 operands were divided by, or None.
"""

import torch
from torch import Tensor


def times_unit(value: Tensor, unit: Tensor | None) -> Tensor:
    return value if unit is None else value * unit


def wide_product(left: Tensor, right: Tensor) -> Tensor:
    """The product with float32 sums and result; otherwise cuBLAS may add parts of it in half."""
    if left.dtype == torch.float32:
        return left @ right
    if left.is_cuda:
        return torch.mm(left, right, out_dtype=torch.float32)
    return left.float() @ right.float()


def add_product(total: Tensor, left: Tensor, right: Tensor, unit: Tensor | None = None) -> None:
    """total += unit left right, in float32."""
    if unit is not None:
        total.add_(wide_product(left, right) * unit)
    elif left.is_cuda and left.dtype != torch.float32:
        torch.addmm(total, left, right, out_dtype=torch.float32, out=total)
    else:
        total.addmm_(left.float(), right.float())


def set_product(out: Tensor, left: Tensor, right: Tensor, unit: Tensor | None) -> None:
    """out = unit left right, rounded once."""
    if unit is None and out.dtype == left.dtype and left.is_cuda:
        torch.mm(left, right, out=out)
    else:
        out.copy_(times_unit(wide_product(left, right), unit))

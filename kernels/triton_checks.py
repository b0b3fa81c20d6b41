"""`checks.values` by one kernel, so that the host does not wait for several.

Shapes: N tokens, H hidden, K top-k.
"""

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from torch import Tensor

from rlvr_cli.kernels import checks
from rlvr_cli.kernels.triton_upstream import later

_ROWS, _COLUMNS = 8, 512


@triton.jit(do_not_specialize=["N"])
def values_kernel(  # type: ignore[no-untyped-def]
    hidden, stride, target, topk, wrong, N, size,
    H: tl.constexpr, K: tl.constexpr, KP: tl.constexpr, BR: tl.constexpr, BH: tl.constexpr,
):  # fmt: skip
    """1 in `wrong` if a row has a NaN, or ids that `checks.values` refuses."""
    rows = tl.program_id(0) * BR + tl.arange(0, BR)
    inside = rows < N
    has_nan = tl.zeros((BR, BH), tl.int32)
    for first in range(0, H, BH):
        columns = first + tl.arange(0, BH)
        at = hidden + rows.to(tl.int64)[:, None] * stride + columns[None, :]
        value = tl.load(at, mask=inside[:, None] & (columns < H)[None, :], other=0.0)
        has_nan |= (value.to(tl.float32) != value.to(tl.float32)).to(tl.int32)
    bad = tl.max(has_nan, 1)
    sampled = tl.load(target + rows, mask=inside, other=0)
    bad |= ((sampled < 0) | (sampled >= size)).to(tl.int32)
    if K:
        k = tl.arange(0, KP)
        at = topk + rows.to(tl.int64)[:, None] * K + k[None, :]
        ids = tl.load(at, mask=inside[:, None] & (k < K)[None, :], other=-1)
        bad |= tl.max(((ids >= size) | (ids == sampled[:, None])).to(tl.int32), 1)
        for j in range(1, K):
            one = tl.load(topk + rows.to(tl.int64) * K + j, mask=inside, other=-1)
            equal = (ids == one[:, None]) & (k < j)[None, :] & (one >= 0)[:, None]
            bad |= tl.max(equal.to(tl.int32), 1)
    if tl.max(bad, 0) > 0:
        tl.store(wrong, 1)


def values(
    hidden_NH: Tensor, target_N: Tensor, topk_NK: Tensor | None, size: int
) -> Callable[[], None]:
    """Starts the check of values with contiguous rows; the returned function waits, and raises."""
    wrong_1 = torch.zeros(1, dtype=torch.int32, device=hidden_NH.device)
    k = 0 if topk_NK is None else topk_NK.shape[1]
    values_kernel[(triton.cdiv(len(hidden_NH), _ROWS),)](
        hidden_NH, hidden_NH.stride(0), target_N, topk_NK if k else target_N, wrong_1,
        len(hidden_NH), size, H=hidden_NH.shape[1], K=k, KP=triton.next_power_of_2(max(1, k)),
        BR=_ROWS, BH=_COLUMNS, num_warps=4,
    )  # fmt: skip
    seen = later(wrong_1)

    def wait() -> None:
        if seen():
            checks.values(hidden_NH, target_N, topk_NK, size)  # whose message says what and where
            raise AssertionError("the kernel refuses what `checks.values` takes")

    return wait

"""The terms of each row that its gradient by the logits needs, in few launches.

Shapes: N tokens, K top-k. Logits and logsumexps in units of log 2. Backward starts when the GPU has
little else to do, so the work before its first large kernel costs as much as its launches.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from rlvr_cli.kernels.triton_forward import ForwardRows
from rlvr_cli.kernels.triton_tiles import vectors

_BLOCK = 256


class Upstream(NamedTuple):
    """The terms of a row's gradient; logits in units of log 2."""

    target_N: Tensor
    target_logit_N: Tensor
    logsumexp2_N: Tensor
    a_N: Tensor
    b_N: Tensor
    g_N: Tensor
    q_N: Tensor
    topk_NK: Tensor
    anchor_logit_NK: Tensor
    active_N: Tensor  # 1 where the gradient is not exactly zero, those of NaN among them
    entropy: bool  # whether its gradient is needed, or b is 0

    def take(self, rows: Tensor) -> "Upstream":
        values = {name: value for name, value in self._asdict().items() if name != "entropy"}
        return self._replace(**{name: value[rows] for name, value in values.items()})

    def unit(self, dtype: torch.dtype) -> Tensor | None:
        """For float16, whose range is small: the size of the largest gradient, a power of 2."""
        if dtype != torch.float16 or not len(self.g_N):
            return None
        most = torch.stack([value.abs().max() for value in (self.a_N, self.b_N, self.g_N)]).max()
        return torch.exp2(most.log2().ceil())

    def over(self, unit: Tensor | None) -> "Upstream":
        if unit is None:
            return self
        return self._replace(
            a_N=self.a_N / unit, b_N=self.b_N / unit, g_N=self.g_N / unit, q_N=self.q_N / unit
        )


@triton.jit(
    do_not_specialize=["N"],
    do_not_specialize_on_alignment=["by_logp", "by_entropy", "by_sum", "by_anchor"],
)
def upstream_kernel(  # type: ignore[no-untyped-def]
    by_logp, by_entropy, by_sum, by_anchor, entropy, anchor, a, b, g, q, active, N,
    LOGP: tl.constexpr, ENTROPY: tl.constexpr, SUM: tl.constexpr, ANCHOR: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """a, b, g and q of triton_gradients.py; a flag says which gradients are needed."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = row < N
    a_row = tl.zeros((BLOCK,), tl.float32)
    b_row = tl.zeros((BLOCK,), tl.float32)
    g_row = tl.zeros((BLOCK,), tl.float32)
    q_row = tl.zeros((BLOCK,), tl.float32)
    if LOGP:
        g_row = tl.load(by_logp + row, mask=inside, other=0.0)
        a_row = -g_row
    if SUM:
        a_row += tl.load(by_sum + row, mask=inside, other=0.0)
    if ENTROPY:
        by = tl.load(by_entropy + row, mask=inside, other=0.0)
        a_row -= by * tl.load(entropy + row, mask=inside, other=0.0)
        b_row = by * -0.6931471805599453
    if ANCHOR:
        mass = tl.load(anchor + row, mask=inside, other=-float("inf"))
        some = mass != -float("inf")  # without anchors there is no mass and no gradient
        by = tl.where(some, tl.load(by_anchor + row, mask=inside, other=0.0), 0.0)
        a_row -= by
        q_row = by * tl.exp(tl.where(some, -mass, 0.0))
    tl.store(a + row, a_row, mask=inside)
    tl.store(b + row, b_row, mask=inside)
    tl.store(g + row, g_row, mask=inside)
    tl.store(q + row, q_row, mask=inside)
    some = (a_row != 0) | (b_row != 0) | (g_row != 0) | (q_row != 0)
    tl.store(active + row, some.to(tl.int32), mask=inside)


def upstream(
    by: tuple[Tensor | None, ...],
    rows: ForwardRows,
    target_N: Tensor,
    topk_NK: Tensor | None,
    anchor_NK: Tensor | None,
    anchor_N: Tensor | None,
) -> Upstream:
    """From the gradients by log-prob, entropy, largest probability, logsumexp and anchors."""
    count, device = len(target_N), target_N.device
    by_logp, by_entropy, _, by_sum = by[:4]
    by_anchor = by[4] if by[4:] else None
    if topk_NK is None or anchor_NK is None:
        topk_NK = target_N.new_empty(count, 0)
        anchor_NK = rows.logp_N.new_empty(count, 0)
    out_4N = vectors(4, count, device)
    active_N = torch.empty(count, dtype=torch.int32, device=device)
    given = (by_logp, by_entropy, by_sum, by_anchor)
    upstream_kernel[(triton.cdiv(count, _BLOCK),)](
        *(rows.logp_N if value is None else value.float().contiguous() for value in given),
        rows.entropy_N,
        rows.entropy_N if anchor_N is None else anchor_N,
        *out_4N,
        active_N,
        count,
        LOGP=by_logp is not None,
        ENTROPY=by_entropy is not None,
        SUM=by_sum is not None,
        ANCHOR=by_anchor is not None,
        BLOCK=_BLOCK,
        num_warps=4,
    )
    a_N, b_N, g_N, q_N = out_4N
    return Upstream(
        target_N, rows.target_N, rows.logsumexp2_N, a_N, b_N, g_N, q_N, topk_NK, anchor_NK,
        active_N, by_entropy is not None,
    )  # fmt: skip


@triton.jit(do_not_specialize=["N", "steps"])
def source_kernel(active, rank, source, N, steps, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """source[i] of the first rows, as many as are active: i, or an active row from after them.

    rank[i] counts the active rows up to i, so i + 1 - rank[i] counts the holes. The k-th active row
    after them finds the k-th hole by bisection.
    """
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    some = tl.load(active + row, mask=row < N, other=0) != 0
    count = tl.load(rank + N - 1)
    tl.store(source + row, row.to(tl.int64), mask=some & (row < count))
    spare = some & (row >= count)
    before = tl.load(rank + count - 1, mask=count > 0, other=0)
    nth = tl.load(rank + row, mask=spare, other=0) - before
    low = tl.zeros_like(row)
    high = low + count
    for _ in range(steps):
        middle = (low + high) // 2
        apart = spare & (low < high)
        holes = middle + 1 - tl.load(rank + middle, mask=apart, other=0)
        high = tl.where(apart & (holes >= nth), middle, high)
        low = tl.where(apart & (holes < nth), middle + 1, low)
    tl.store(source + low, row.to(tl.int64), mask=spare)


def sources(active_N: Tensor) -> tuple[Tensor, Tensor]:
    """The source of each of the first rows, so that no row is read after it is written.

    [N], of which the first count are set, and count as [1] of int32.
    """
    count = len(active_N)
    rank_N = active_N.cumsum(0, dtype=torch.int32)
    source_N = torch.empty(count, dtype=torch.int64, device=active_N.device)
    source_kernel[(triton.cdiv(count, _BLOCK),)](
        active_N, rank_N, source_N, count, count.bit_length(), BLOCK=_BLOCK, num_warps=4
    )
    return source_N, rank_N[-1:]


def later(value_1: Tensor) -> Callable[[], int]:
    """The value on the host; the returned function waits for it, and for no later work."""
    if not value_1.is_cuda:
        return lambda: int(value_1)
    host_1 = torch.empty_like(value_1, device="cpu", pin_memory=True)
    host_1.copy_(value_1, non_blocking=True)
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()

    def wait() -> int:
        event.synchronize()
        return int(host_1)

    return wait

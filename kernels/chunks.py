"""Statistics of rows and their gradients in plain torch, in little more memory than the logits.

Shapes: N tokens, H hidden, V vocabulary, K top-k. Temporaries as wide as the vocabulary, besides
the logits, are computed for an eighth of the rows at a time; the gradient overwrites the logits.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_PIECES = 8
_MM_WIDENS = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 8)  # on a GPU


class HeadOptions(NamedTuple):
    """The output head, and what is done with its logits."""

    weight_VH: Tensor
    bias_V: Tensor | None
    temperature: float
    softcap: float | None


def logits(hidden_NH: Tensor, head: HeadOptions) -> Tensor:
    """In float32 or wider; operands are widened by columns, so that no full copy is in memory."""
    wide = torch.promote_types(hidden_NH.dtype, torch.float32)
    if wide == hidden_NH.dtype:
        logits_NV = torch.nn.functional.linear(hidden_NH, head.weight_VH, head.bias_V)
    elif hidden_NH.is_cuda and _MM_WIDENS:
        logits_NV = torch.mm(hidden_NH, head.weight_VH.T, out_dtype=wide)
        if head.bias_V is not None:
            logits_NV += head.bias_V
    else:
        logits_NV = hidden_NH.new_empty(len(hidden_NH), len(head.weight_VH), dtype=wide)
        for cut in _columns(head.weight_VH, wide):
            bias_W = None if head.bias_V is None else head.bias_V[cut]
            logits_NV[:, cut] = torch.nn.functional.linear(hidden_NH, head.weight_VH[cut], bias_W)
    if head.softcap is not None:
        logits_NV.div_(head.softcap).tanh_().mul_(head.softcap)
    return logits_NV if head.temperature == 1 else logits_NV.div_(head.temperature)


def pieces(count: int) -> Iterator[slice]:
    rows = max(1, math.ceil(count / _PIECES))
    return (slice(start, start + rows) for start in range(0, max(1, count), rows))


def _columns(head_VH: Tensor, wide: torch.dtype) -> Iterator[slice]:
    """All columns at once, or pieces of them if the values need widening."""
    return iter([slice(None)]) if head_VH.dtype == wide else pieces(len(head_VH))


class StatsFunction(torch.autograd.Function):
    """logp_N, entropy_N, max_prob_N, logsumexp_N and, with top-k ids, anchor_logp_N.

    `cuts` are the chunks of rows. The logits of a single chunk are kept for the backward pass,
    those of several are computed again there.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden_NH: Tensor,
        head_VH: Tensor,
        bias_V: Tensor | None,
        target_N: Tensor,
        topk_NK: Tensor | None,
        numbers: tuple[float, float | None],
        entropy_gradient: bool,
        cuts: list[slice],
    ) -> tuple[Tensor, ...]:
        head = HeadOptions(head_VH, bias_V, *numbers)
        parts: list[tuple[Tensor, ...]] = []
        logits_NV: Tensor | None = None
        for cut in cuts:
            logits_NV = None  # frees them before the next are allocated
            logits_NV = logits(hidden_NH[cut], head)
            target, topk = target_N[cut], None if topk_NK is None else topk_NK[cut]
            for rows in pieces(len(logits_NV)):
                anchor_ids = None if topk is None else topk[rows]
                parts.append(_statistics(logits_NV[rows], target[rows], anchor_ids))
        most_N, total_N, *outputs = (torch.cat(values) for values in zip(*parts, strict=True))
        anchor_N = outputs[4] if topk_NK is not None else None
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*([] if entropy_gradient else [outputs[1]]), outputs[2])
        ctx.save_for_backward(
            hidden_NH, head_VH, bias_V, target_N, topk_NK, most_N, total_N, outputs[1], anchor_N
        )
        ctx.numbers, ctx.cuts = numbers, cuts
        ctx.saved_NV = logits_NV if len(cuts) == 1 and any(ctx.needs_input_grad) else None
        return tuple(outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *by: Tensor | None) -> tuple[Tensor | None, ...]:
        hidden_NH, head_VH, bias_V, *saved = ctx.saved_tensors
        by_logp_N, by_entropy_N, _, by_sum_N, *by_anchor = by
        by_anchor_N = by_anchor[0] if by_anchor else None
        if by_anchor_N is not None:
            by_anchor_N = by_anchor_N.masked_fill(saved[-1].isneginf(), 0.0)
        values: list[Any] = [*saved, by_logp_N, by_entropy_N, by_sum_N, by_anchor_N]
        rows = _Rows(*values)
        head = HeadOptions(head_VH, bias_V, *ctx.numbers)
        gradients = _Gradients(hidden_NH, head, ctx.needs_input_grad, len(ctx.cuts) > 1)
        for cut in ctx.cuts:
            logits_NV, ctx.saved_NV = ctx.saved_NV, None
            if logits_NV is None:
                logits_NV = logits(hidden_NH[cut], head)
            chunk_rows = rows.at(cut)
            for piece in pieces(len(logits_NV)):
                _differentiate(logits_NV[piece], chunk_rows.at(piece), head)
            gradients.add(logits_NV, cut)
            del logits_NV  # frees them before the next are allocated
        return (*gradients.result(), *[None] * 5)


class _Rows(NamedTuple):
    """The terms of the gradient of each row by its logits."""

    target_N: Tensor
    topk_NK: Tensor | None
    most_N: Tensor  # the largest logit
    total_N: Tensor  # log of the sum of exponentials of the logits less the largest
    entropy_N: Tensor
    anchor_N: Tensor | None
    by_logp_N: Tensor | None
    by_entropy_N: Tensor | None
    by_sum_N: Tensor | None
    by_anchor_N: Tensor | None

    def at(self, rows: slice) -> "_Rows":
        values: list[Any] = [None if value is None else value[rows] for value in self]
        return _Rows(*values)


def _statistics(logits_NV: Tensor, target_N: Tensor, topk_NK: Tensor | None) -> tuple[Tensor, ...]:
    """The largest logit, the log of the sum of exponentials over it, and the statistics."""
    most_N = logits_NV.amax(-1)
    power_NV = (logits_NV - most_N[:, None]).exp_()
    sum_N = power_NV.sum(-1)
    entropy_N = torch.special.entr(power_NV.div_(sum_N[:, None]), out=power_NV).sum(-1)
    total_N = sum_N.log()
    logp_N = log_probs(logits_NV, target_N[:, None], most_N, total_N)[:, 0]
    outputs = most_N, total_N, logp_N, entropy_N, (-total_N).exp(), most_N + total_N
    if topk_NK is None:
        return outputs
    logp_NK = log_probs(logits_NV, topk_NK.clamp(min=0), most_N, total_N)
    return (*outputs, logp_NK.masked_fill(topk_NK < 0, -torch.inf).logsumexp(-1))


def log_probs(logits_NV: Tensor, ids_NK: Tensor, most_N: Tensor, total_N: Tensor) -> Tensor:
    return logits_NV.gather(-1, ids_NK) - most_N[:, None] - total_N[:, None]


def _differentiate(logits_NV: Tensor, rows: _Rows, head: HeadOptions) -> None:
    """Overwrites the logits with the gradient by hidden head^T + bias.

    d logit_v = p_v (d logsumexp - d logp - d anchor - d entropy (log p_v + entropy))
                + d logp [v = target] + d anchor p_v / mass of the anchors [v in anchors]
    """
    bent_NV = None if head.softcap is None else logits_NV * (head.temperature / head.softcap)
    logp_NV = logits_NV.sub_(rows.most_N[:, None]).sub_(rows.total_N[:, None])
    anchors_NK = None if rows.by_anchor_N is None else _by_anchors(logp_NV, rows)
    power_NV = logp_NV.exp()
    if rows.by_entropy_N is None:
        logp_NV.zero_()
    else:
        finite_NV = logp_NV.masked_fill_(logp_NV.isneginf(), 0.0)
        finite_NV.add_(rows.entropy_N[:, None]).mul_(-rows.by_entropy_N[:, None])
    if rows.by_sum_N is not None:
        logp_NV.add_(rows.by_sum_N[:, None])
    for by_N in (rows.by_logp_N, rows.by_anchor_N):
        if by_N is not None:
            logp_NV.sub_(by_N[:, None])
    by_NV = logp_NV.mul_(power_NV)
    if rows.by_logp_N is not None:
        by_NV.scatter_add_(-1, rows.target_N[:, None], rows.by_logp_N[:, None])
    if rows.topk_NK is not None and anchors_NK is not None:
        by_NV.scatter_add_(-1, rows.topk_NK.clamp(min=0), anchors_NK)
    if bent_NV is not None:
        by_NV.mul_(bent_NV.square_().neg_().add_(1))
    if head.temperature != 1:
        by_NV.div_(head.temperature)


def _by_anchors(logp_NV: Tensor, rows: _Rows) -> Tensor:
    """Gradient of the log of the anchors' mass by each one's own logit; 0 where there is none."""
    assert rows.topk_NK is not None and rows.anchor_N is not None and rows.by_anchor_N is not None
    logp_NK = logp_NV.gather(-1, rows.topk_NK.clamp(min=0)) - rows.anchor_N[:, None]
    nothing_NK = (rows.topk_NK < 0) | rows.anchor_N.isneginf()[:, None]
    return logp_NK.exp().mul(rows.by_anchor_N[:, None]).masked_fill(nothing_NK, 0.0)


class _Gradients:
    """By hidden states, weight and bias, summed over chunks in float32 or wider."""

    def __init__(
        self, hidden_NH: Tensor, head: HeadOptions, needs: tuple[bool, ...], several: bool
    ) -> None:
        head_VH, bias_V = head.weight_VH, head.bias_V
        wide = torch.promote_types(hidden_NH.dtype, torch.float32)
        sums = wide if several else head_VH.dtype
        self._hidden_NH, self._head_VH, self._wide = hidden_NH, head_VH, wide
        self._by_hidden_NH = torch.zeros_like(hidden_NH, dtype=wide) if needs[0] else None
        self._by_head_VH = torch.zeros_like(head_VH, dtype=sums) if needs[1] else None
        self._by_bias_V = None
        if needs[2] and bias_V is not None:
            self._by_bias_V = torch.zeros_like(bias_V, dtype=wide)

    def add(self, by_logits_NV: Tensor, cut: slice) -> None:
        hidden_NH = self._hidden_NH[cut]
        for columns in _columns(self._head_VH, self._wide):
            by_logits_NW = by_logits_NV[:, columns].to(hidden_NH.dtype)
            if self._by_hidden_NH is not None:
                _add(self._by_hidden_NH[cut], by_logits_NW, self._head_VH[columns])
            if self._by_head_VH is not None:
                _add(self._by_head_VH[columns], by_logits_NW.T, hidden_NH)
        if self._by_bias_V is not None:
            self._by_bias_V += by_logits_NV.sum(0)

    def result(self) -> Iterator[Tensor | None]:
        dtype = self._hidden_NH.dtype
        for value in (self._by_hidden_NH, self._by_head_VH, self._by_bias_V):
            yield None if value is None else value.to(dtype)


def _add(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += left right."""
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right

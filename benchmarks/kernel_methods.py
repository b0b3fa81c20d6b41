"""The methods that kernels.py times, the problem that they solve, and its truth in float64.

Shapes: N tokens, H hidden, V vocabulary, K anchors.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

K, ENTROPY, ANCHOR = 8, 0.01, 0.05  # anchors a row, and the weights of both terms in the loss


class Problem(NamedTuple):
    hidden_NH: Tensor
    head_VH: Tensor
    target_N: Tensor
    topk_NK: Tensor
    advantage_N: Tensor


class Outputs(NamedTuple):
    """What a method gives; None where it has no such thing."""

    logp_N: Tensor | None
    entropy_N: Tensor | None
    by_hidden_NH: Tensor
    by_head_VH: Tensor
    loss: str = "all"  # which terms its gradients are of: all, entropy, logp or mean


def make(count: int, hidden: int, vocabulary: int, device: str) -> Problem:
    rng = torch.Generator(device).manual_seed(0)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, device=device, generator=rng)

    head_VH = torch.randn(vocabulary, hidden, device=device, generator=rng, dtype=torch.bfloat16)
    head_VH /= hidden**0.5
    order_V = torch.randperm(vocabulary, device=device, generator=rng)
    ids = order_V[(vocabulary ** uniform(count, 3 + K) - 1).long().clamp(0, vocabulary - 1)]
    hidden_NH = 2 * torch.randn(count, hidden, device=device, generator=rng)
    peak_N1 = 12 + 16 * uniform(count, 1)
    hidden_NH += peak_N1 * head_VH[ids[:, 0]].float()
    for rival in (1, 2):
        hidden_NH += peak_N1 * uniform(count, 1) * head_VH[ids[:, rival]].float()
    topk_NK = ids[:, 1 : 1 + K].sort(-1).values
    topk_NK[:, 1:].masked_fill_(topk_NK[:, 1:] == topk_NK[:, :-1], -1)
    topk_NK.masked_fill_(topk_NK == ids[:, :1], -1)
    advantage_N = torch.randn(count, device=device, generator=rng)
    return Problem(
        hidden_NH.bfloat16(), head_VH, ids[:, 0].contiguous(), topk_NK.contiguous(), advantage_N
    )


def loss_of(advantage_N: Tensor, logp_N: Tensor, entropy_N: Any, anchor_N: Any) -> Tensor:
    """Its gradients by the statistics are known beforehand, for any method."""
    gain_N = advantage_N.to(logp_N.dtype) * logp_N
    if entropy_N is not None:
        gain_N = gain_N + ENTROPY * entropy_N
    if anchor_N is not None:
        gain_N = gain_N + ANCHOR * anchor_N.masked_fill(anchor_N.isneginf(), 0.0)
    return -gain_N.sum() / len(logp_N)


def differentiated(function: Callable[..., Any], loss: str) -> Callable[[Problem], Outputs]:
    """A method of log-probs, entropies and anchors of leaves, with the gradients of `loss_of`."""

    def run(problem: Problem) -> Outputs:
        hidden = problem.hidden_NH.detach().requires_grad_()
        head = problem.head_VH.detach().requires_grad_()
        result = function(hidden, head, problem)
        if loss == "mean":
            result.backward()
            return Outputs(None, None, hidden.grad, head.grad, loss)
        logp_N, entropy_N, anchor_N = result
        loss_of(problem.advantage_N, logp_N, entropy_N, anchor_N).backward()
        entropy_N = None if entropy_N is None else entropy_N.detach()
        return Outputs(logp_N.detach(), entropy_N, hidden.grad, head.grad, loss)

    return run


def ours(stash_bytes: int, tiles: Any = None) -> Callable[..., Any]:
    from rlvr_cli.kernels import triton_stats

    def run(hidden: Tensor, head: Tensor, problem: Problem) -> Any:
        stats = triton_stats.token_stats(
            hidden, head, problem.target_N, entropy_gradient=True, topk_NK=problem.topk_NK,
            stash_bytes=stash_bytes, tiles=tiles,
        )  # fmt: skip
        return stats.logp_N, stats.entropy_N, stats.anchor_logp_N

    return run


def reference(hidden: Tensor, head: Tensor, problem: Problem) -> Any:
    from rlvr_cli.kernels import reference as plain

    stats = plain.token_stats(
        hidden, head, problem.target_N, entropy_gradient=True, topk_NK=problem.topk_NK
    )
    return stats.logp_N, stats.entropy_N, stats.anchor_logp_N


def liger_sm90(hidden: Tensor, head: Tensor, problem: Problem) -> Any:
    from liger_kernel.ops.cutedsl.ops.fused_scaled_cross_entropy_sm90 import (
        LigerFusedScaledCrossEntropySM90Function as Function,
    )

    nll_N, entropy_N = Function.apply(hidden, head, problem.target_N, 1.0, -100, 1, True)
    return -nll_N, entropy_N.float(), None


def liger_grpo(hidden: Tensor, head: Tensor, problem: Problem) -> Any:
    from liger_kernel.chunked_loss import LigerFusedLinearGRPOLoss

    length = min(2048, len(hidden))
    rows = len(hidden) // length
    loss = LigerFusedLinearGRPOLoss(beta=0.0, use_ref_model=False, loss_type="bnpo", compiled=False)
    result, _ = loss(
        hidden.view(rows, length, -1), head, problem.target_N.view(rows, length),
        torch.ones(rows, length, device=hidden.device), problem.advantage_N[:rows],
    )  # fmt: skip
    return result


def liger_mean(hidden: Tensor, head: Tensor, problem: Problem) -> Any:
    from liger_kernel.ops.fused_linear_cross_entropy import (
        LigerFusedLinearCrossEntropyFunction as Function,
    )

    result = Function.apply(hidden, head, problem.target_N)
    return result[0] if isinstance(result, tuple) else result


def cce(hidden: Tensor, head: Tensor, problem: Problem) -> Any:
    from cut_cross_entropy import linear_cross_entropy

    return -linear_cross_entropy(hidden, head, problem.target_N, reduction="none"), None, None


def verl(hidden: Tensor, head: Tensor, problem: Problem) -> Any:
    from verl.utils.kernel.linear_cross_entropy import linear_cross_entropy

    logp_N, entropy_N = linear_cross_entropy(hidden, head, problem.target_N, 1.0, "none", None)
    return logp_N, entropy_N, None


def quack(hidden: Tensor, head: Tensor, problem: Problem) -> Any:
    from quack.linear_cross_entropy import chunked_linear_cross_entropy

    return chunked_linear_cross_entropy(hidden, head, problem.target_N, chunk_size=4096)


def methods() -> dict[str, Callable[[Problem], Outputs]]:
    """By name, ours first; a peer that is not installed fails when it runs."""
    return {
        "ours, stash": differentiated(ours(1 << 60), "all"),
        "ours, recompute": differentiated(ours(0), "all"),
        "ours, stash, half of the rows": half(differentiated(ours(1 << 60), "all")),
        "liger sm90": differentiated(liger_sm90, "entropy"),
        "quack": differentiated(quack, "mean"),
        "verl": differentiated(verl, "entropy"),
        "cut-cross-entropy": differentiated(cce, "logp"),
        "liger mean loss": differentiated(liger_mean, "mean"),
        "liger grpo": differentiated(liger_grpo, "mean"),
        "reference": differentiated(reference, "all"),
    }


def half(method: Callable[[Problem], Outputs]) -> Callable[[Problem], Outputs]:
    """Every other row has no advantage and neither an entropy nor an anchor term."""
    from rlvr_cli.kernels import triton_stats

    def run(problem: Problem) -> Outputs:
        hidden = problem.hidden_NH.detach().requires_grad_()
        head = problem.head_VH.detach().requires_grad_()
        stats = triton_stats.token_stats(
            hidden, head, problem.target_N, topk_NK=problem.topk_NK, stash_bytes=1 << 60
        )
        kept_N = torch.arange(len(hidden), device=hidden.device) % 2
        ((problem.advantage_N * kept_N * stats.logp_N).sum() / -len(hidden)).backward()
        return Outputs(stats.logp_N.detach(), None, hidden.grad, head.grad, "half")

    return run


def truth(problem: Problem, loss: str) -> Outputs:
    """In float64, by the definition, for the first rows; the loss is divided by their number."""
    hidden, head = problem.hidden_NH.double(), problem.head_VH.double()
    logits_NV = hidden @ head.T
    logp_NV = logits_NV.log_softmax(-1)
    del logits_NV
    p_NV = logp_NV.exp()
    row_N = torch.arange(len(hidden), device=hidden.device)
    target_N, advantage_N = problem.target_N, problem.advantage_N.double()
    logp_N = logp_NV[row_N, target_N]
    entropy_N = -(p_NV * logp_NV).sum(-1)
    if loss == "mean":
        advantage_N = torch.ones_like(advantage_N)
    if loss == "half":
        advantage_N = advantage_N * (row_N % 2)
    by_NV = p_NV * advantage_N[:, None]
    by_NV[row_N, target_N] -= advantage_N
    if loss in ("all", "entropy"):
        by_NV += ENTROPY * p_NV * (logp_NV + entropy_N[:, None])
    if loss == "all":
        ids_NK = problem.topk_NK.clamp(min=0)
        p_NK = p_NV.gather(-1, ids_NK) * (problem.topk_NK >= 0)
        mass_N1 = p_NK.sum(-1, keepdim=True)
        by_NV += ANCHOR * p_NV * (mass_N1 > 0)
        by_NV.scatter_add_(-1, ids_NK, -ANCHOR * p_NK / mass_N1.clamp(min=1e-300))
    by_NV /= len(hidden)
    return Outputs(logp_N, entropy_N, by_NV @ head, by_NV.T @ hidden)

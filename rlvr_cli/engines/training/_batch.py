"""What every training engine does with a micro-batch: its loss, and the sums over its tokens."""

from collections.abc import Callable, Iterable

import numpy as np
import torch

from rlvr_cli.algorithms import objective as objectives
from rlvr_cli.algorithms.objective import Objective, TokenBatch, Totals
from rlvr_cli.config import UpdateOptions
from rlvr_cli.errors import UserError
from rlvr_cli.models import logprobs
from rlvr_cli.protocols import Floats, Row
from rlvr_cli.runtime.device import moved

Forward = Callable[..., logprobs.CompletionStats]
Metrics = dict[str, torch.Tensor]  # scalars in float64


def loss(
    policy: Forward, rows: list[Row], objective: Objective, totals: Totals, temperature: float
) -> tuple[torch.Tensor, Metrics]:
    """The loss of rows, with gradient, and their metrics; `policy` gives their statistics.

    Rows without old log-probs have those of this forward pass: the update is the policy's first.
    The host does not wait for a GPU here, so that it prepares the next rows while that computes.
    """
    stats = policy(
        rows,
        temperature=temperature,
        entropy_gradient="entropy" in objective.needs,
        top_k=objective.top_k if "ref_topk" in objective.needs else 0,
    )
    tokens = _token_batch(rows, stats, objective)
    result = objectives.loss(objective, tokens, totals)
    metrics = objectives.token_metrics(objective, tokens, result)
    if _is_fresh(rows) and (gap := _sampler_gap(rows, tokens)) is not None:
        metrics["sampler_gap_max"] = gap
    return result.value, metrics


def _is_fresh(rows: list[Row]) -> bool:
    return all(row.old_logp is None for row in rows)


def _sampler_gap(rows: list[Row], tokens: TokenBatch) -> torch.Tensor | None:
    """The largest difference in nats between the sampler's and the old log-probs."""
    sampled = [
        [torch.nan] * len(row.token_ids) if row.sampler_logp is None else row.sampler_logp
        for row in rows
    ]
    if all(np.isnan(logp_T).all() for logp_T in sampled):
        return None
    gap_BT = tokens.old_logp_BT - logprobs.pad(sampled, tokens.mask_BT, tokens.old_logp_BT.dtype)
    return tokens.trained(gap_BT).abs().nan_to_num(0.0, torch.inf).max().double()


def adamw(weights: Iterable[torch.Tensor], options: UpdateOptions) -> torch.optim.AdamW:
    """The optimizer of the options; its rate is set at each update."""
    return torch.optim.AdamW(
        weights,
        lr=0.0,
        betas=(options.adam_beta1, options.adam_beta2),
        eps=options.adam_eps,
        weight_decay=options.weight_decay,
        fused=True,
    )


def numbers(parts: list[Metrics]) -> list[dict[str, float]]:
    """The metrics of micro-batches on the host, in one copy."""
    values = [value for part in parts for value in part.values()]
    on_host = iter(torch.stack(values).tolist() if values else [])
    return [{name: next(on_host) for name in part} for part in parts]


def merge(parts: Iterable[dict[str, float]]) -> dict[str, float]:
    """Sums, and extremes by their suffix, over micro-batches or processes."""
    sums: dict[str, float] = {}
    for new in parts:
        for key, value in new.items():
            join = max if key.endswith("_max") else min if key.endswith("_min") else float.__add__
            sums[key] = join(sums[key], value) if key in sums else value
    return sums


def not_finite(norm: float) -> UserError:
    return UserError(
        f"the gradient's norm is {norm}: the optimizer step was skipped",
        "look at the step's log-probs with `rlvr logprob`; a lower --learning-rate, in another "
        "--out, may help",
    )


def _token_batch(
    rows: list[Row], stats: logprobs.CompletionStats, objective: Objective
) -> TokenBatch:
    mask_BT, dtype, device = stats.mask_BT, stats.logp_BT.dtype, stats.logp_BT.device

    def per_token(values: Iterable[Floats | None]) -> torch.Tensor:
        return logprobs.pad([[] if v is None else v for v in values], mask_BT, dtype)

    def per_row(values: list[float]) -> torch.Tensor:
        return moved(torch.tensor(values, dtype=dtype, device="cpu"), device)

    needs = objective.needs
    return TokenBatch(
        logp_BT=stats.logp_BT,
        old_logp_BT=(
            stats.logp_BT.detach() if _is_fresh(rows) else per_token(row.old_logp for row in rows)
        ),
        mask_BT=mask_BT,
        advantage_B=per_row([row.advantage for row in rows]),
        entropy_BT=stats.entropy_BT,
        ref_logp_BT=per_token(row.ref_logp for row in rows) if "ref_logp" in needs else None,
        behaviour_logp_BT=(
            per_token(row.behaviour_logp for row in rows) if "behaviour_logp" in needs else None
        ),
        anchor_logp_BT=stats.anchor_logp_BT,
        anchor_ref_logp_BT=(
            logprobs.anchor_ref_logp(rows, mask_BT, dtype, top_k=objective.top_k)
            if "ref_topk" in needs
            else None
        ),
        columns={
            name: per_row([row.columns.get(name, torch.nan) for row in rows])
            for name in objective.loss_columns
        },
        token_columns={
            name: per_token(row.token_columns[name] for row in rows)
            for name, _ in objective.token_columns
        },
        at_N=stats.at_N,
    )

"""Optimizer updates on one batch: epochs of mini-batches, and what each was like."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from rlvr_cli.algorithms import lr_schedule
from rlvr_cli.algorithms.objective import Objective, TokenBatch, Totals
from rlvr_cli.config import UpdateOptions
from rlvr_cli.errors import UserError
from rlvr_cli.protocols import Floats, Row, TrainingEngine
from rlvr_cli.runtime import seeds
from rlvr_cli.runtime.later import torch
from rlvr_cli.stages import batch as batches, common
from rlvr_cli.storage import schema


def run(
    engine: TrainingEngine,
    batch: batches.UpdateBatch,
    objective: Objective,
    options: UpdateOptions,
    sampling: dict[str, Any],
    seed: int,
) -> pa.Table:
    """One record an update. `sampling` has the temperature of the rollouts and their limit."""
    if not batch.rows:
        return steps_table([], objective)
    temperature = sampling.get("temperature") or 1.0
    epochs = range(options.epochs)
    groups = list(zip(batch.prompt_ids, batch.inputs, strict=True))
    mini_batches = [list(_mini_batches(groups, options, seed, epoch)) for epoch in epochs]
    rows = _with_old(engine, batch, objective, options, mini_batches[0], temperature)
    gap = _sampler_gap(rows, batch.sampler_logp) if rows[0].old_logp is not None else None
    longest = objective.longest or sampling.get("max_new_tokens")
    longest = longest or max(len(row.token_ids) for row in rows)  # of an objective without it
    records = []
    for epoch, cuts in enumerate(mini_batches):
        for number, indices in enumerate(cuts):
            chosen = _with_batch_columns(objective, [rows[i] for i in indices])
            tokens = sum(len(row.token_ids) for row in chosen)
            totals = Totals(tokens=tokens, sequences=len(chosen), max_length=longest)
            sums = engine.accumulate(chosen, objective, totals, temperature)
            rate = lr_schedule.rate(options, engine.updates)
            try:
                norm = engine.update(rate)
            except UserError:
                _logps(engine, rows, indices, batch, temperature)  # says which row it is
                raise
            gap = sums.pop("sampler_gap_max", gap)
            record = {
                "epoch": epoch,
                "mini_batch": number,
                "grad_norm": norm,
                "learning_rate": rate,
            }
            records.append(record | {"sampler_gap": gap} | measures(sums, totals, objective))
    return steps_table(records, objective)


def _with_old(
    engine: TrainingEngine,
    batch: batches.UpdateBatch,
    objective: Objective,
    options: UpdateOptions,
    mini_batches: list[list[int]],
    temperature: float,
) -> list[Row]:
    """The rows with what the old log-probs are, or with what a sole update needs to see them."""
    rows = list(batch.rows)
    if options.old_logprobs != "recompute":
        return rows
    is_sole = options.epochs == len(mini_batches) == 1
    if is_sole and not objective.batch_columns:  # its own forward pass gives them
        return [
            dataclasses.replace(row, sampler_logp=logp_T)
            for row, logp_T in zip(rows, batch.sampler_logp, strict=True)
        ]
    for indices in mini_batches:
        logps = _logps(engine, rows, indices, batch, temperature)
        for i, logp in zip(indices, logps, strict=True):
            rows[i] = dataclasses.replace(rows[i], old_logp=logp)
    return rows


def _with_batch_columns(objective: Objective, rows: list[Row]) -> list[Row]:
    """The rows of an optimizer batch with the numbers that the objective takes over all of it."""
    if not objective.batch_columns:
        return rows
    from rlvr_cli.models import logprobs

    length_B = torch.tensor([len(row.token_ids) for row in rows])
    mask_BT = torch.arange(int(length_B.max())) < length_B[:, None]

    def per_token(values: Iterable[Floats | None]) -> torch.Tensor:
        return logprobs.pad([[] if v is None else v for v in values], mask_BT, torch.float64)

    old_BT = per_token(row.old_logp for row in rows)
    reads_behaviour = "behaviour_logp" in objective.needs
    batch = TokenBatch(
        logp_BT=old_BT,
        old_logp_BT=old_BT,
        mask_BT=mask_BT,
        advantage_B=torch.tensor([row.advantage for row in rows]),
        entropy_BT=torch.zeros_like(old_BT),
        behaviour_logp_BT=(
            per_token(row.behaviour_logp for row in rows) if reads_behaviour else None
        ),
    )
    numbers = {name: number(batch) for name, number in objective.batch_columns}
    return [dataclasses.replace(row, columns=row.columns | numbers) for row in rows]


def _logps(
    engine: TrainingEngine,
    rows: list[Row],
    indices: list[int],
    batch: batches.UpdateBatch,
    temperature: float,
) -> list[np.ndarray]:
    """The policy's log-probs of rows; an error that names the first that is not finite."""
    logps = engine.logp([rows[i] for i in indices], temperature)
    common.require_finite(logps, [batch.prompt_ids[i] for i in indices])
    return logps


def measures(sums: dict[str, float], totals: Totals, objective: Objective) -> dict[str, Any]:
    """The columns of an update that come from the sums over its tokens."""
    tokens = max(totals.tokens, 1)
    shares = {}
    for name in share_names(objective):
        among = sums[f"{name}_among"]
        shares[name] = sums[name] / among if among else None
    return {
        "loss": sums["loss"],
        "entropy": sums["entropy"] / tokens,
        "clip_fraction": sums["clipped"] / tokens,
        "clamp_count": int(sums["clamped"]),
        "ratio_mean": sums["ratio"] / tokens,
        "ratio_min": sums["ratio_min"],
        "ratio_max": sums["ratio_max"],
        "kl": sums["kl"] / tokens,
        "sequences": totals.sequences,
        "tokens": totals.tokens,
        **shares,
    }


def steps_table(records: list[dict[str, Any]], objective: Objective) -> pa.Table:
    return pa.Table.from_pylist(records, schema.schema("steps", share_names(objective)))


def with_begun_shares(objective: Objective, begun: tuple[str, ...] | None) -> Objective:
    """The objective with the shares of a directory that an earlier version began, which had fewer.

    As it is where no directory was begun, or one with shares of another objective.
    """
    if begun is None or not set(begun) < set(share_names(objective)):
        return objective
    return dataclasses.replace(
        objective, shares=tuple(share for share in objective.shares if share[0] in begun)
    )


def share_names(objective: Objective) -> tuple[str, ...]:
    return tuple(name for name, _ in objective.shares)


def _mini_batches(
    groups: list[tuple[str, int]], options: UpdateOptions, seed: int, epoch: int
) -> Iterator[list[int]]:
    """Row indices of each mini-batch: complete groups, shuffled again in each epoch.

    `groups` has the prompt and the number of the input of each row.
    """

    def place(group: tuple[str, int]) -> int:
        name, number = group
        return seeds.derive("mini-batch", seed, epoch, name, *([number] if number else []))

    members: dict[tuple[str, int], list[int]] = {}
    for index, group in enumerate(groups):
        members.setdefault(group, []).append(index)
    order = sorted(members, key=place)
    size = options.mini_batch_prompts or len(order)
    for start in range(0, len(order), size):
        yield [index for group in order[start : start + size] for index in members[group]]


def _sampler_gap(rows: list[Row], sampled: list[np.ndarray | None]) -> float | None:
    """The largest difference in nats between the sampler's and the trainer's log-probs."""
    gaps = [
        np.abs(np.asarray(row.old_logp, np.float64) - logp_T).max()
        for row, logp_T in zip(rows, sampled, strict=True)
        if logp_T is not None and len(logp_T)
    ]
    return float(max(gaps)) if gaps else None

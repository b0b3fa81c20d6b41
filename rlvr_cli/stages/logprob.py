"""The stage that computes the log-probs of stored completions under policies."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli import policy as policies
from rlvr_cli import schema
from rlvr_cli.errors import UsageError
from rlvr_cli.fill import OnPart, fill
from rlvr_cli.policy import Loaded, Policy
from rlvr_cli.protocols import Row
from rlvr_cli.shards import WHOLE, Plan, Shards, Share
from rlvr_cli.stages import common

POLICY_COLUMNS = ("old_logp", "entropy", "max_prob")
COLUMNS = (*POLICY_COLUMNS, "ref_logp")


def run(
    rollouts: Shards,
    out: Path,
    *,
    columns: tuple[str, ...] = POLICY_COLUMNS,
    policy: Policy | None = None,
    reference: Policy | None = None,
    load: Callable[[Policy], Loaded] = policies.load,
    micro_batch_tokens: int,
    share: Share = WHOLE,
    on_part: OnPart = lambda index, state: None,
) -> Shards | None:
    """A logprobs directory with the columns asked for, at the temperature of the rollouts.

    `policy` gives old_logp, entropy and max_prob, `reference` gives ref_logp. `load` is called once
    for each of them that a part needs; it may know them in memory.
    """
    check(columns, has_reference=reference is not None)
    columns = tuple(name for name in COLUMNS if name in columns)
    temperature = rollouts.params.get("temperature") or 1.0
    load = functools.cache(load)
    wanted = schema.schema("logprobs", only=columns)

    def make(index: int) -> pa.Table:
        table = rollouts.part(index)
        common.require_tokens(rollouts, table)
        rows = common.training_rows(table)
        values: dict[str, list] = {}
        if policy and set(columns) & set(POLICY_COLUMNS):
            made = _evaluate(load(policy), rows, temperature, micro_batch_tokens)
            values.update(zip(POLICY_COLUMNS, made, strict=True))
        if reference and "ref_logp" in columns:
            made = _evaluate(load(reference), rows, temperature, micro_batch_tokens)
            values["ref_logp"] = made[0]
        values |= {name: table[name] for name in common.KEY}
        return pa.table({name: values[name] for name in wanted.names}, wanted)

    params = {
        "policy": policy.digest if policy and set(columns) & set(POLICY_COLUMNS) else None,
        "reference": reference.digest if reference and "ref_logp" in columns else None,
        "temperature": temperature,
        "micro_batch_tokens": micro_batch_tokens,
    }
    plan = Plan("logprobs", "logprob", params, {"rollouts": rollouts}, len(rollouts), only=columns)
    return fill(out, plan, make, share=share, summarise=summarise, on_part=on_part)


def check(columns: tuple[str, ...], *, has_reference: bool) -> None:
    """Refuses columns that this stage cannot make."""
    for name in columns:
        if name not in COLUMNS:
            raise UsageError(f"unknown column `{name}`", f"the columns are {', '.join(COLUMNS)}")
        if name == "ref_logp" and not has_reference:
            raise UsageError("ref_logp needs a reference policy", "name it with --ref-model")


def _evaluate(loaded: Loaded, rows: list[Row], temperature: float, tokens: int) -> list[list]:
    import torch

    from rlvr_cli import forward

    columns: list[list] = [[], [], []]
    with torch.no_grad():
        for batch in forward.micro_batches([row for row in rows if row.token_ids], tokens):
            stats = forward.completion_stats(loaded.model, batch, temperature=temperature)
            for column, value_BT in zip(columns, stats[1:], strict=True):
                column += forward.unpad(value_BT, batch)
    made = [iter(column) for column in columns]
    return [[next(column) if row.token_ids else [] for row in rows] for column in made]


def summarise(logprobs: Shards) -> dict[str, Any]:
    """The token mean of each column, and the mean of old minus reference log-prob (k1)."""
    sums: dict[str, float] = {}
    tokens = 0
    for table in logprobs.parts():
        names = [name for name in table.column_names if name not in common.KEY]
        for name in names:
            values = pc.list_flatten(table[name])
            sums[name] = sums.get(name, 0.0) + (pc.sum(values).as_py() or 0.0)
        tokens += len(pc.list_flatten(table[names[0]]))
    means = {name: value / max(tokens, 1) for name, value in sums.items()}
    if {"old_logp", "ref_logp"} <= means.keys():
        means["kl_k1"] = means["old_logp"] - means["ref_logp"]
    return {"tokens": tokens, **means}

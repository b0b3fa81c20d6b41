"""The stage that trains DLC's memory model on sampled completions (Algorithm 1, line 22)."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from rlvr_cli import config
from rlvr_cli.algorithms import objective as objectives
from rlvr_cli.algorithms.objective import Totals
from rlvr_cli.config import MemoryOptions, UpdateOptions
from rlvr_cli.errors import DataError
from rlvr_cli.models import policy as policies
from rlvr_cli.models.policy import Loaded, Policy
from rlvr_cli.protocols import Row, TrainingEngine
from rlvr_cli.stages import common, room, steps, train_step, updates
from rlvr_cli.storage.atomic import Syncing
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import Shards
from rlvr_cli.storage.writer import OnPart

_ALGO = "gpg"  # of advantages of 1: the mean cross-entropy of the tokens


def run(
    rollouts: Shards,
    out: Path,
    memory: Policy,
    options: MemoryOptions,
    *,
    micro_batch_tokens: int = UpdateOptions.micro_batch_tokens,
    save: bool = True,
    engine: Callable[[], TrainingEngine] | None = None,
    on_part: OnPart = lambda index, state: None,
    syncing: Syncing | None = None,
) -> Shards:
    """A steps directory with the trained memory model in its `_checkpoint` folder.

        L = -1/tokens sum_i sum_t log m_phi(y_it),    at the temperature of the rollouts

    One AdamW update an epoch, on all completions. As in `train_step.run`, a directory without
    `save` has no checkpoint, and only the engine's memory has the model.
    """
    plan = Plan(
        "steps",
        "memory-step",
        {
            **vars(options),
            "micro_batch_tokens": micro_batch_tokens,
            "memory_model": memory.digest,
        },
        {"rollouts": rollouts},
        parts=1,
        earlier=config.earlier(MemoryOptions),
        paths={"memory_model": memory.named_from(out)},
    )
    make_engine = engine or (lambda: trainer(policies.load(memory), options, micro_batch_tokens))

    def update() -> tuple[TrainingEngine, pa.Table]:
        if save and engine is None:
            room.require(memory, out)
        own = make_engine()
        return own, _update(own, _rows(rollouts), options, rollouts.params)

    return steps.write(
        out, plan, update, save=save, identity="memory", on_part=on_part, syncing=syncing
    )


def trainer(loaded: Loaded, options: MemoryOptions, micro_batch_tokens: int) -> TrainingEngine:
    """The memory model with its own AdamW, on the device of this process."""
    update = replace(
        UpdateOptions(),
        learning_rate=options.memory_learning_rate,
        micro_batch_tokens=micro_batch_tokens,
    )
    return train_step.trainer(loaded, update, 0)


def _rows(rollouts: Shards) -> list[Row]:
    rows: list[Row] = []
    for table in rollouts.parts():
        common.require_tokens(rollouts, table)
        rows += [replace(row, advantage=1.0) for row in common.training_rows(table)]
    rows = [row for row in rows if len(row.token_ids)]
    if not rows:
        raise DataError(f"`{rollouts.path}` holds no completion", "look at its status column")
    return rows


def _update(
    engine: TrainingEngine, rows: list[Row], options: MemoryOptions, sampling: dict[str, Any]
) -> pa.Table:
    objective = objectives.build(_ALGO)
    tokens = sum(len(row.token_ids) for row in rows)
    totals = Totals(tokens, len(rows), max(len(row.token_ids) for row in rows))
    records = []
    for epoch in range(options.memory_epochs):
        sums = engine.accumulate(rows, objective, totals, sampling.get("temperature") or 1.0)
        sums.pop("sampler_gap_max", None)
        rate = options.memory_learning_rate
        record: dict[str, Any] = {"epoch": epoch, "mini_batch": 0, "learning_rate": rate}
        record |= {"grad_norm": engine.update(rate), "sampler_gap": None}
        records.append(record | updates.measures(sums, totals, objective))
    return updates.steps_table(records, objective)

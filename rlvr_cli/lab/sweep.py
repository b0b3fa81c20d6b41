"""A sweep: named runs of small systems, stored as shards; one part is one run of all its seeds.

Shapes: S seeds, R recorded steps, Q queries, A actions.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rlvr_cli.errors import UsageError
from rlvr_cli.lab import outcome
from rlvr_cli.lab.bandit import Trajectories, admitted, simulate
from rlvr_cli.lab.settings import Settings
from rlvr_cli.lab.systems import System
from rlvr_cli.runtime.pool import side_by_side
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import Shards
from rlvr_cli.storage.writer import OnPart, write_shards_streaming


@dataclass(frozen=True)
class LabRun:
    """A system trained under settings, by the name that a reader sees."""

    name: str
    system: System
    settings: Settings

    @property
    def columns(self) -> list[str]:
        """One for each query and action, as in `persian_cat`; only the action if no query is
        named."""
        queries = [f"{query}_" if query else "" for query in self.system.queries]
        return [f"{query}{action}" for query in queries for action in self.system.actions]


def make(
    out: Path,
    stage: str,
    runs: Sequence[LabRun],
    *,
    seeds: int,
    run_seed: int = 0,
    jobs: int | None = None,
    on_part: OnPart = lambda index, state: None,
) -> Shards:
    """The trajectories of every run, one row a seed and recorded step; the summary has the
    outcomes of each run. Runs are shared among `jobs` processes, one a core by default."""
    if not runs or seeds < 1:
        raise UsageError("there is nothing to run", "give at least one seed and one value of each")
    for run in runs:
        admitted(run.settings.algo, len(run.system.actions))
    columns = tuple(dict.fromkeys(name for run in runs for name in run.columns))
    params = {
        "seeds": seeds,
        "seed": run_seed,
        "runs": [run.name for run in runs],
        "systems": sorted({run.system.name for run in runs}),
        "steps": sorted({run.settings.steps for run in runs}),
        "content": [[asdict(run.system), asdict(run.settings)] for run in runs],
    }
    plan = Plan("trajectories", stage, params, {}, len(runs), extra=columns)
    shards = write_shards_streaming(
        out,
        plan,
        lambda work: side_by_side(
            _rows, [(index, runs[index], seeds, run_seed, columns) for index in work], jobs
        ),
        summarise=lambda shards: {"outcomes": _outcomes(shards, runs)},
        on_part=on_part,
    )
    assert shards is not None, "all parts are of this share"
    return shards


def _rows(task: tuple[int, LabRun, int, int, tuple[str, ...]]) -> tuple[int, pa.Table]:
    index, run, seeds, run_seed, columns = task
    trajectories = simulate(run.system, run.settings, range(seeds), run_seed=run_seed)
    rows, recorded = seeds * len(trajectories.step_R), len(trajectories.step_R)
    flat = trajectories.probability_SRQA.reshape(rows, -1).astype(np.float64)
    values = dict(zip(run.columns, flat.T, strict=True))
    return index, pa.table(
        {
            "run": [run.name] * rows,
            "seed": np.repeat(np.arange(seeds), recorded),
            "step": np.tile(trajectories.step_R, seeds).astype(np.int32),
        }
        | {name: values.get(name, pa.nulls(rows, pa.float64())) for name in columns}
    )


def read(shards: Shards, runs: Sequence[LabRun]) -> Callable[[str], Trajectories]:
    """The trajectories of a run by its name, read on first use."""
    index_of = {run.name: index for index, run in enumerate(runs)}

    @functools.cache
    def trajectories(name: str) -> Trajectories:
        run = runs[index_of[name]]
        table = shards.part(index_of[name])
        seeds = int(table["seed"][-1].as_py()) + 1
        step_R = table["step"].to_numpy()[: len(table) // seeds]
        flat = np.stack([table[column].to_numpy() for column in run.columns], axis=-1)
        shape = (seeds, len(step_R), len(run.system.queries), len(run.system.actions))
        return Trajectories(step_R, flat.reshape(shape).astype(np.float32))

    return trajectories


def _outcomes(shards: Shards, runs: Sequence[LabRun]) -> dict[str, dict[str, Any]]:
    trajectories = read(shards, runs)
    return {run.name: outcome.summary(run.system, trajectories(run.name)) for run in runs}

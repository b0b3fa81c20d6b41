"""Which prompts a rollout takes."""

import functools
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rlvr_cli.errors import UsageError
from rlvr_cli.models import questions
from rlvr_cli.runtime import seeds
from rlvr_cli.storage import rows
from rlvr_cli.storage.rows import Rows
from rlvr_cli.storage.shards import Shards


@dataclass(frozen=True)
class Selection:
    """Which prompts a rollout takes, and the seed of its rows.

    With `prompts_per_step` it takes those of one step: each epoch shuffles the prompts by the
    hash of seed, epoch and id, and cuts them into steps; the remainder is left out of this epoch.
    A further draw takes as many of all other prompts, shuffled again for each step.
    """

    seed: int = 0
    step: int = 0
    prompts_per_step: int | None = None
    limit: int | None = None
    draw: int = 0

    def of(self, prompts: Shards) -> np.ndarray:
        """The numbers of the prompts, in order; the ids are shuffled once an epoch."""
        count = min(prompts.rows, prompts.rows if self.limit is None else self.limit)
        size = self.prompts_per_step
        if size is None:
            return np.arange(count)
        if size > count:
            raise UsageError(
                f"a step takes {size} prompts, and there are {count}",
                f"use --prompts-per-step {max(1, count)}",
            )
        epoch, offset = divmod(max(self.step, 1) - 1, count // size)
        ids, start = rows.of(prompts), offset * size
        shuffled_N = _shuffled(ids, count, "order", self.seed, epoch)
        if not self.draw:
            return shuffled_N[start : start + size]
        anew_N = _shuffled(ids, count, "draw", self.seed, self.step)
        others_N = anew_N[~np.isin(anew_N, shuffled_N[start : start + size])]
        return others_N[(self.draw - 1) * size : self.draw * size]

    def rows(self, prompts: Shards) -> pa.Table:
        """The rows of those prompts, with the column `raw` also where it was not stored."""
        return questions.with_raw(prompts, self.of(prompts))


@functools.lru_cache(maxsize=2)
def _shuffled(ids: Rows, count: int, *parts: int | str) -> np.ndarray:
    """The numbers of the first rows in the order of the seeds that these parts give their ids."""
    seed_of = seeds.deriving(*parts)
    names = (name for chunk in ids.ids[:count].chunks for name in chunk.to_pylist())
    return np.argsort(np.fromiter(map(seed_of, names), np.int64, count), kind="stable")

"""The rows of a directory by their prompt's id; only the parts that hold them are read.

The ids are read once a process. A row of the directory then costs 20 bytes and its id.
"""

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from rlvr_cli.errors import DataError
from rlvr_cli.storage.shards import Shards


class Rows:
    """The rows of a directory in which no two have one id, numbered over its parts."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        columns = [shards.part(i, ["prompt_id"])["prompt_id"] for i in range(len(shards))]
        self.ids = pa.chunked_array([c for column in columns for c in column.chunks], pa.string())
        self._ends_P = np.cumsum([len(column) for column in columns])

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, numbers: Sequence[int] | np.ndarray, columns: Sequence[str]) -> pa.Table:
        """The rows of these numbers, in that order; each part that holds some is read once."""
        number_N = np.asarray(numbers, dtype=np.int64)
        part_N = np.searchsorted(self._ends_P, number_N, side="right")
        order_N = np.argsort(part_N, kind="stable")
        parts, starts = np.unique(part_N[order_N], return_index=True)
        tables = [
            self._shards.part(part, columns).take(number_N[chosen_M] - self._begin(part))
            for part, chosen_M in zip(parts.tolist(), np.split(order_N, starts[1:]), strict=False)
        ]
        if not tables:
            return self._shards.part(0, columns).slice(0, 0)
        place_N = np.empty_like(order_N)
        place_N[order_N] = np.arange(len(order_N))
        return pa.concat_tables(tables).take(place_N)

    def _begin(self, part: int) -> int:
        return int(self._ends_P[part - 1]) if part else 0

    def numbers_of(self, ids: Sequence[str]) -> list[int]:
        """The number of each id's row; an error for one that is not there."""
        return [self._number_of(name) for name in ids]

    def _number_of(self, name: str) -> int:
        hash_N, order_N = self._by_hash
        at = int(np.searchsorted(hash_N, hash(name)))
        while at < len(hash_N) and hash_N[at] == hash(name):
            if self.ids[int(order_N[at])].as_py() == name:
                return int(order_N[at])
            at += 1
        raise DataError(
            f"`{self._shards.path}` holds no prompt `{name}`",
            "name the prompts that the completions were sampled of, with --prompts",
        )

    @functools.cached_property
    def _by_hash(self) -> tuple[np.ndarray, np.ndarray]:
        """The hashes of the ids in order, and the row of each."""
        names = (name for chunk in self.ids.chunks for name in chunk.to_pylist())
        hash_N = np.fromiter(map(hash, names), np.int64, len(self.ids))
        order_N = np.argsort(hash_N)
        return hash_N[order_N], order_N


def of(shards: Shards) -> Rows:
    """The rows of a directory, whose ids are read once for the same content in the same place."""
    return _of(shards.path.absolute(), shards.digest)


@functools.lru_cache(maxsize=4)
def _of(path: Path, digest: str) -> Rows:
    return Rows(Shards.open(path))

"""Figures that an earlier version stored, by definitions that have changed since."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rlvr_cli.storage.begun import begun_behaviour

COUNTED = ("prompt_id", "n", "correct")


def content(
    stored: str, new: str, path: Path, table: pa.Table, behaviour: Mapping[str, int]
) -> str:
    """The hash of what a directory of metrics holds, in this version's figures.

    The stored hash is of the figures too. Those of an earlier version's definitions are left as
    they are if they belong to the same prompts with the same counts: then it is the new hash.
    """
    if is_current(path, behaviour):
        return stored
    try:
        rows = pq.read_table(path / "part-00000.parquet", columns=list(COUNTED))
    except (OSError, pa.ArrowException):
        return stored
    same = all(rows[name].to_pylist() == table[name].to_pylist() for name in COUNTED)
    return new if same else stored


def is_current(path: Path, behaviour: Mapping[str, int]) -> bool:
    """Whether a directory was begun with these versions of what makes its figures."""
    before = begun_behaviour(path)
    return all(before.get(name, 1) == version for name, version in behaviour.items())


def remarks(path: Path | None, behaviour: Mapping[str, int]) -> list[str]:
    """What to know of a directory whose figures are of an earlier definition; else nothing."""
    if path is None or is_current(path, behaviour):
        return []
    return [
        f"`{path}` keeps its figures, which are of an earlier definition ({', '.join(behaviour)}); "
        "those printed here are of this version: store them with another --out"
    ]

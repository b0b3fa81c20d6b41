"""Completions and their scores for other tools."""

import functools
import json
from collections.abc import Iterator
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rlvr_cli import registry
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.storage import atomic, fetched
from rlvr_cli.storage.shards import Shards

ROWS_PER_BATCH = 1024


def send_out(shards: Shards, out: Path, format: str) -> int:
    """Writes one file in a format of formats/, completely or not at all; the number of its rows."""
    fetched.require_outside(out)
    module = writer(format)
    if shards.kind == "prompts" and format not in ("jsonl", "verl"):
        raise DataError(
            f"`{shards.path}` holds prompts, and `{format}` is a format of completions",
            "name rollouts or scores, or use --format jsonl",
        )
    atomic.make_folder(out.parent)
    rows: Iterator[dict[str, Any]] = module.write(_groups(shards))
    if module.SUFFIX == ".parquet":
        data, count = _parquet(rows, module.SCHEMA)
    else:
        lines = [json.dumps(row) + "\n" for row in rows]
        data, count = "".join(lines).encode(), len(lines)
    atomic.write_atomic(out, data)
    return count


def writer(format: str) -> Any:
    """The module of a format that can be written; an error for one that is only read."""
    module = registry.module("formats", format)
    if not hasattr(module, "write"):
        names = registry.names("formats")
        known = [name for name in names if hasattr(registry.module("formats", name), "write")]
        raise UsageError(
            f"`{format}` is a format that rlvr reads and does not write",
            f"name one of {', '.join(known)} with --format",
        )
    return module


def _parquet(rows: Iterator[dict[str, Any]], schema: pa.Schema) -> tuple[bytes, int]:
    sink, count = pa.BufferOutputStream(), 0
    with pq.ParquetWriter(sink, schema) as writer:
        while part := list(islice(rows, ROWS_PER_BATCH)):
            writer.write_table(pa.Table.from_pylist(part, schema))
            count += len(part)
    return sink.getvalue().to_pybytes(), count


def _groups(shards: Shards) -> Iterator[dict[str, Any]]:
    """Each prompt with its completions, joined from a directory and its ancestors."""
    if shards.kind == "prompts":
        for table in shards.parts():
            yield from ({**_plain(row), "completions": []} for row in table.to_pylist())
        return
    chain = [shards]
    for kind in ("scores", "rollouts"):
        if chain[-1].kind not in ("prompts", kind) and kind in _ancestors(chain[-1]):
            chain.append(chain[-1].parent(kind))
    golds = functools.cache(lambda one: _golds(chain[-1].inputs[one]))
    for index in range(len(shards)):
        asked = golds(chain[-1].input_of(index))
        tables = [directory.part(index).to_pylist() for directory in reversed(chain)]
        rows = (
            {key: value for part in parts for key, value in part.items()}
            for parts in zip(*tables, strict=True)
        )
        for prompt_id, group in groupby(rows, itemgetter("prompt_id")):
            yield {**asked[prompt_id], "completions": list(group)}


def _golds(shards: Shards) -> dict[str, dict[str, Any]]:
    """The prompts that completions answer, by their ids."""
    prompts = shards.parent("prompts").table().to_pylist()
    return {row["prompt_id"]: _plain(row) for row in prompts}


def _ancestors(shards: Shards) -> set[str]:
    order = {"advantages": {"scores", "rollouts"}, "scores": {"rollouts"}}
    return order.get(shards.kind, set())


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **row,
        "messages": json.loads(row["messages"]),
        "extra": json.loads(row["extra"]) if row["extra"] else None,
    }

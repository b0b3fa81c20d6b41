"""Completions and their scores for other tools."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rlvr_cli import files
from rlvr_cli.shards import Shards

_MESSAGE = pa.struct([("role", pa.string()), ("content", pa.large_string())])
_VERL = pa.schema(
    [
        ("data_source", pa.string()),
        ("prompt", pa.list_(_MESSAGE)),
        ("ability", pa.string()),
        ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.large_string())])),
        ("extra_info", pa.struct([("index", pa.string()), ("extra", pa.large_string())])),
        ("responses", pa.list_(pa.large_string())),
        ("scores", pa.list_(pa.float64())),
    ]
)


def send_out(shards: Shards, out: Path, format: str) -> int:
    """Writes one file, whole or not at all; the number of its rows.

    jsonl: one completion a line with all that is known of it. verl: one prompt a row, as its
    Parquet data sets and its evaluation have them, with the lists responses and scores.
    """
    rows = _gathered(shards)
    files.make_folder(out.parent)
    if format == "jsonl":
        files.write_atomic(out, "".join(json.dumps(row) + "\n" for row in rows).encode())
        return len(rows)
    table = pa.Table.from_pylist(_verl(rows), _VERL)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    files.write_atomic(out, sink.getvalue().to_pybytes())
    return table.num_rows


def _gathered(shards: Shards) -> list[dict[str, Any]]:
    """Rows of a directory joined with those of its ancestors."""
    chain = [shards]
    for kind in ("scores", "rollouts"):
        if chain[-1].kind not in ("prompts", kind) and kind in _ancestors(chain[-1]):
            chain.append(chain[-1].parent(kind))
    if shards.kind == "prompts":
        return [_plain(row) for row in shards.table().to_pylist()]
    golds = {r["prompt_id"]: _plain(r) for r in shards.parent("prompts").table().to_pylist()}
    rows = []
    for index in range(len(shards)):
        tables = [directory.part(index).to_pylist() for directory in reversed(chain)]
        for parts in zip(*tables, strict=True):
            row = {key: value for part in parts for key, value in part.items()}
            rows.append({**golds[row["prompt_id"]], **row})
    return rows


def _ancestors(shards: Shards) -> set[str]:
    order = {"advantages": {"scores", "rollouts"}, "scores": {"rollouts"}}
    return order.get(shards.kind, set())


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **row,
        "messages": json.loads(row["messages"]),
        "extra": json.loads(row["extra"]) if row["extra"] else None,
    }


def _verl(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {}
    for row in rows:
        messages = row["messages"]
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        entry = made.setdefault(
            row["prompt_id"],
            {
                "data_source": row["source"],
                "prompt": messages,
                "ability": row["verifier"],
                "reward_model": {"style": "rule", "ground_truth": row["answer"]},
                "extra_info": {"index": row["prompt_id"], "extra": json.dumps(row["extra"])},
                "responses": [],
                "scores": [],
            },
        )
        if "completion" in row:
            entry["responses"].append(row["completion"])
            entry["scores"].append(row.get("reward"))
    return list(made.values())

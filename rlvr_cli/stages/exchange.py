"""Completions and their scores for other tools."""

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rlvr_cli import registry
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.interop.formats._common import PLACE, with_places
from rlvr_cli.storage import atomic, fetched
from rlvr_cli.storage.images import Images
from rlvr_cli.storage.shards import Shards
from rlvr_cli.terminal import plural

ROWS_PER_BATCH = 1024
ROWS_WITH_IMAGES = 32


@dataclass(frozen=True)
class Sent:
    """What was written, and what a user should know of it."""

    rows: int
    remarks: tuple[str, ...] = ()


def send_out(shards: Shards, out: Path, format: str) -> Sent:
    """Writes one file in a format of formats/, completely or not at all."""
    fetched.require_outside(out)
    module = writer(format)
    if shards.kind == "prompts" and format not in ("jsonl", "verl"):
        raise DataError(
            f"`{shards.path}` holds prompts, and `{format}` is a format of completions",
            "name rollouts or scores, or use --format jsonl",
        )
    groups, lost = _groups(shards), _Lost(format)
    keeps_images = hasattr(module, "KEEPS_IMAGES")
    if not keeps_images:
        groups = map(lost.without_images, groups)
    rows: Iterator[dict[str, Any]] = module.write(groups)
    if module.SUFFIX == ".parquet":
        has_images = keeps_images and Images.of(_prompts(shards)) is not None
        schema = module.SCHEMA_WITH_IMAGES if has_images else module.SCHEMA
        data, count = _parquet(rows, schema, ROWS_WITH_IMAGES if has_images else ROWS_PER_BATCH)
    else:
        lines = [json.dumps(row) + "\n" for row in rows]
        data, count = "".join(lines).encode(), len(lines)
    atomic.make_folder(out.parent)
    atomic.write_atomic(out, data)
    return Sent(count, tuple(lost.remarks()))


class _Lost:
    """Counts the images of a format that has no place for them."""

    def __init__(self, format: str) -> None:
        self._format, self._images, self._prompts = format, 0, 0

    def without_images(self, group: dict[str, Any]) -> dict[str, Any]:
        if not (images := group.pop("images", ())):
            return group
        self._images, self._prompts = self._images + len(images), self._prompts + 1
        return group | {"messages": with_places(group["messages"], group["prompt_id"])}

    def remarks(self) -> Iterator[str]:
        if self._images:
            yield (
                f"`{self._format}` cannot hold images: {plural.of(self._images, 'image')} of "
                f"{plural.of(self._prompts, 'prompt')} left out, with `{PLACE}` in their place; "
                "--format jsonl, verl or trl keeps them"
            )


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


def _parquet(
    rows: Iterator[dict[str, Any]], schema: pa.Schema, rows_per_batch: int
) -> tuple[bytes, int]:
    sink, count = pa.BufferOutputStream(), 0
    with pq.ParquetWriter(sink, schema) as writer:
        while part := list(islice(rows, rows_per_batch)):
            writer.write_table(pa.Table.from_pylist(part, schema))
            count += len(part)
    return sink.getvalue().to_pybytes(), count


def _groups(shards: Shards) -> Iterator[dict[str, Any]]:
    """Each prompt with its completions, joined from a directory and its ancestors."""
    if shards.kind == "prompts":
        images = Images.of(shards)
        for table in shards.parts():
            yield from ({**_plain(row, images), "completions": []} for row in table.to_pylist())
        return
    chain = [shards]
    for kind in ("scores", "rollouts"):
        if chain[-1].kind not in ("prompts", kind) and kind in _ancestors(chain[-1]):
            chain.append(chain[-1].parent(kind))
    golds = functools.cache(lambda one: _golds(chain[-1].inputs[one]))
    for index in range(len(shards)):
        prompts = golds(chain[-1].input_of(index))
        tables = [directory.part(index).to_pylist() for directory in reversed(chain)]
        rows = (
            {key: value for part in parts for key, value in part.items()}
            for parts in zip(*tables, strict=True)
        )
        for prompt_id, group in groupby(rows, itemgetter("prompt_id")):
            yield {**prompts[prompt_id], "completions": list(group)}


def _golds(shards: Shards) -> dict[str, dict[str, Any]]:
    """The prompts that completions answer, by their ids."""
    prompts = shards.parent("prompts")
    images = Images.of(prompts)
    return {row["prompt_id"]: _plain(row, images) for row in prompts.table().to_pylist()}


def _prompts(shards: Shards) -> Shards:
    return shards if shards.kind == "prompts" else shards.parent("prompts")


def _ancestors(shards: Shards) -> set[str]:
    order = {"advantages": {"scores", "rollouts"}, "scores": {"rollouts"}}
    return order.get(shards.kind, set())


def _plain(row: dict[str, Any], images: Images | None) -> dict[str, Any]:
    """A prompt with its JSON columns as values, and with its images if any prompt has some."""
    return {
        **row,
        **({"images": images.images_of(row["prompt_id"])} if images else {}),
        "messages": json.loads(row["messages"]),
        "extra": json.loads(row["extra"]) if row["extra"] else None,
    }

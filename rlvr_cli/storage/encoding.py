"""The bytes of parts and manifests: equal plans and rows give equal bytes."""

import contextlib
import functools
import hashlib
import importlib.metadata
import platform
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rlvr_cli.storage import atomic, fetched
from rlvr_cli.storage.journal import Part
from rlvr_cli.storage.plan import Plan, recorded
from rlvr_cli.storage.shards import METADATA_KEY

_LIBRARIES = (
    *("rlvr", "pyarrow", "numpy", "torch", "transformers", "scipy"),
    *("math-verify", "latex2sympy2_extended", "sympy"),
)
_BYTES_PER_GROUP = 2**20  # of rows of images, which are read together


def part(plan: Plan, index: int, table: pa.Table) -> bytes:
    """A part's file; its metadata says what it is and what wrote it."""
    origin = {**plan.identity, "fingerprint": plan.fingerprint, "part": index}
    origin["versions"] = _versions()
    table = table.select(plan.schema.names).cast(plan.schema)
    table = table.replace_schema_metadata(
        {METADATA_KEY: atomic.canonical_json(origin).encode()}
    ).combine_chunks()
    sink = pa.BufferOutputStream()
    options = _of_images(table) if plan.kind == "images" else {"compression": "zstd"}
    pq.write_table(table, sink, write_page_checksum=True, **options)
    return bytes(sink.getvalue().to_pybytes())


def _of_images(table: pa.Table) -> dict[str, Any]:
    """How images are written, which are compressed already: few rows at a time are read."""
    rows = max(1, table.num_rows * _BYTES_PER_GROUP // max(1, table.nbytes))
    compression = {name: "NONE" if name == "bytes" else "ZSTD" for name in table.column_names}
    return {"compression": compression, "row_group_size": rows, "use_dictionary": False}


def manifest(path: Path, plan: Plan, parts: list[Part]) -> dict[str, Any]:
    """The listing of these parts of a directory at `path`."""
    checksums = "".join(part["sha256"] for part in parts)
    return {
        **plan.identity,
        "fingerprint": plan.fingerprint,
        "digest": hashlib.sha256((plan.fingerprint + checksums).encode()).hexdigest(),
        "parents": {
            role: recorded(
                parent,
                lambda one: {"path": fetched.named_from(one.path, path), "digest": one.digest},
            )
            for role, parent in plan.parents.items()
        },
        "paths": plan.paths,
        "versions": _versions(),
        "planned_parts": plan.parts,
        "parts": parts,
    }


@functools.cache
def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in _LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions

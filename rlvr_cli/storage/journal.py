"""The journal of a process: one line for each part that it writes, in a file of its own.

    _writer-NONCE.jsonl

Each line is a sha256 and a JSON object. A line that does not match its sha256, such as one cut off
by a kill, is ignored: its part is computed again. As long as a file grows, other processes know
that its process is alive (leases.py).
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlvr_cli.storage import atomic

PATTERN = "_writer-*.jsonl"
PLAN = "_plan.json"  # the identity with which a directory was begun
COMPLETE = "_complete.json"  # the listing of a complete directory, just before it is the manifest
_PARTIAL = "_partial*.json"  # the listings of earlier versions, and of a directory taken back
_PART = re.compile(r"part-(\d{5,})\.parquet")

Part = dict[str, Any]  # the name, the rows and the sha256 of a part


def listings(folder: Path) -> list[Path]:
    """The files that hold the identity with which an incomplete directory was begun."""
    named = (folder / name for name in (COMPLETE, PLAN))
    return [*(path for path in named if path.exists()), *sorted(folder.glob(_PARTIAL))]


def part_name(index: int) -> str:
    return f"part-{index:05d}.parquet"


def index_of(name: str) -> int | None:
    """The index of the part with this name; None of another name."""
    match = _PART.fullmatch(name)
    return int(match[1]) if match else None


def line(value: dict[str, Any]) -> bytes:
    text = atomic.canonical_json(value)
    return f"{hashlib.sha256(text.encode()).hexdigest()} {text}\n".encode()


def read(data: bytes) -> Iterator[dict[str, Any]]:
    """The objects of the lines that are as they were written."""
    for checksum, _, text in (row.partition(b" ") for row in data.split(b"\n")):
        if text and hashlib.sha256(text).hexdigest().encode() == checksum:
            value = json.loads(text)
            if isinstance(value, dict):
                yield value


def parts_of(folder: Path) -> Iterator[Part]:
    """The parts that the journals of a directory list, each with its plan's fingerprint."""
    for path in sorted(folder.glob(PATTERN)):
        data = atomic.read_if_there(path) or b""  # its process may be done meanwhile
        yield from (value for value in read(data) if "name" in value)

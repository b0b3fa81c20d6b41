"""metrics.jsonl of a run: a record of each step, in one line.

`_metrics.sha256` has the digest of each record but for its seconds, so that a line that was changed
is noticed. Lines of version 0.1.0 have none, and are taken as they are.
"""

import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlvr_cli.storage import atomic

METRICS, DIGESTS = "metrics.jsonl", "_metrics.sha256"
Record = dict[str, Any]
_DIGEST = re.compile(rb"([0-9]{1,18}) ([0-9a-f]{64})")


@dataclass(frozen=True)
class Logged:
    """The records as they were written, by step and in order, and the state of the file.

    `damaged` are the numbers of the lines that changed since they were written. `seconds` are
    those of all lines that can be read. The steps in `unproven` have no digest.
    """

    records: dict[int, Record] = field(default_factory=dict)
    damaged: list[int] = field(default_factory=list)
    seconds: dict[int, dict[str, float]] = field(default_factory=dict)
    unproven: list[int] = field(default_factory=list)


def read(run: Path) -> Logged:
    """What a run has logged; of several lines of a step the last counts."""
    lines = _lines(run / METRICS)
    matches = (_DIGEST.fullmatch(line) for line in _lines(run / DIGESTS))
    digests = {int(match[1]): match[2].decode() for match in matches if match}
    logged = Logged()
    records = {}
    for number, line in enumerate(lines, 1):
        if (record := _record(line)) is None:
            logged.damaged.append(number)
        else:
            records[record["step"]] = number, record
    for step in sorted(records):
        number, record = records[step]
        logged.seconds[step] = _seconds(record)
        logged.unproven.extend([] if step in digests else [step])
        if digests.get(step, _digest(record)) == _digest(record):
            logged.records[step] = record
        else:
            logged.damaged.append(number)
    return logged


def of_completions(rollouts: Record) -> Record:
    """The mean length, in tokens, and the share cut off, from the summary of a rollout stage."""
    count = rollouts.get("completions")
    return {
        "length": rollouts["tokens"] / count if count else None,
        "truncated": rollouts["cut"] / count if count else None,
    }


def append(run: Path, record: Record) -> None:
    """Brings the record of a step to disk, after those that are there."""
    atomic.append(run / METRICS, _line(record))
    atomic.append(run / DIGESTS, _digest_line(record))


def write(run: Path, records: list[Record]) -> None:
    """Rewrites the file."""
    atomic.write_atomic(run / METRICS, b"".join(map(_line, records)))
    atomic.write_atomic(run / DIGESTS, b"".join(map(_digest_line, records)))


def _lines(path: Path) -> list[bytes]:
    data = atomic.read_bytes(path) if path.exists() else b""
    return data.removesuffix(b"\n").split(b"\n") if data else []


def _record(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
        step = record["step"]
        is_step = isinstance(step, int) and not isinstance(step, bool) and 0 <= step < 10**18
        json.dumps(record, allow_nan=False)
        return dict(record) if is_step else None
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None


def _seconds(record: Record) -> dict[str, float]:
    seconds = record.get("seconds")
    if not isinstance(seconds, dict):
        return {}
    return {name: s for name, s in seconds.items() if type(s) in (int, float)}


def _line(record: Record) -> bytes:
    return json.dumps(record, allow_nan=False).encode() + b"\n"


def _digest(record: Record) -> str:
    content = {name: value for name, value in record.items() if name != "seconds"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _digest_line(record: Record) -> bytes:
    return f"{record['step']} {_digest(record)}\n".encode()

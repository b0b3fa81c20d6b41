"""Finished completions of unfinished parts, stored in case the run is interrupted.

An engine that works on several parts at once finishes none of them for a while. Each batch of
finished completions is one Arrow IPC file, so that an interruption loses less than a part:

    _spool-NONCE-000000-SHA256.arrow

The sha256 covers the file and the plan that decides its completions. A file with another one, or
without one as earlier versions wrote, is not read: its completions are sampled again.
"""

import hashlib
import uuid
from collections.abc import Container
from pathlib import Path

import pyarrow as pa

from rlvr_cli.protocols import Completion
from rlvr_cli.storage import atomic, publishing

PATTERN = "_spool-*.arrow"
_SCHEMA = pa.schema(
    [
        pa.field("row", pa.int64()),
        pa.field("token_ids", pa.list_(pa.int32())),
        pa.field("behaviour_logp", pa.list_(pa.float32())),
        pa.field("finish_reason", pa.string()),
        pa.field("policy_logp", pa.list_(pa.float32())),
        pa.field("text", pa.large_string()),
        pa.field("too_long", pa.string()),
    ]
)


class PartialCompletions:
    """The finished completions of some rows, each under the number of its row in the directory.

    What other processes left of those rows is read at the start; `unread` counts files that are
    not as they were written. The files stay until the directory is complete.
    """

    def __init__(self, folder: Path, plan: str, rows: Container[int], *, size: int) -> None:
        """`plan` is the fingerprint of all that decides the completions."""
        self._folder, self._plan, self._size = folder, plan, size
        self._nonce, self._written = uuid.uuid4().hex[:16], 0
        self._waiting: list[tuple[int, Completion]] = []
        self.known: dict[int, Completion] = {}
        self.unread = 0
        for path in sorted(folder.glob(PATTERN)):
            pairs = self._read(path)
            self.unread += pairs is None
            self.known.update(pair for pair in pairs or () if pair[0] in rows)

    def add(self, row: int, completion: Completion) -> None:
        """Keeps a completion; they are written `size` at a time."""
        self._waiting.append((row, completion))
        if len(self._waiting) >= self._size:
            self._write()

    def _write(self) -> None:
        columns = [
            [row for row, _ in self._waiting],
            *(
                [getattr(completion, name) for _, completion in self._waiting]
                for name in _SCHEMA.names[1:]
            ),
        ]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, _SCHEMA) as writer:
            writer.write_table(pa.table(columns, _SCHEMA))
        data = sink.getvalue().to_pybytes()
        name = f"_spool-{self._nonce}-{self._written:06d}-{self._checksum(data)}.arrow"
        publishing.write_new(self._folder / name, data, self._nonce)
        self._written += 1
        self._waiting = []

    def _read(self, path: Path) -> list[tuple[int, Completion]] | None:
        """The completions of a file; None if it is not as it was written, or of another plan."""
        data = atomic.read_if_there(path) if path.is_file() else None
        if data is None or path.stem.rpartition("-")[2] != self._checksum(data):
            return None
        with pa.ipc.open_file(pa.BufferReader(data)) as reader:
            rows = reader.read_all().to_pylist()
        return [(row.pop("row"), Completion(**row)) for row in rows]

    def _checksum(self, data: bytes) -> str:
        return hashlib.sha256(self._plan.encode() + data).hexdigest()

"""Completions that are finished while their part is not, kept for a run that may be cut off.

An engine that has several parts in hand at once finishes none of them for a while. Each batch of
finished completions is one Arrow IPC file, so that what was lost is less than a part's worth.
"""

from pathlib import Path

import pyarrow as pa

from rlvr_cli.protocols import Completion
from rlvr_cli.storage import atomic

PATTERN = "_spool-*.arrow"
_SCHEMA = pa.schema(
    [
        pa.field("row", pa.int64()),
        pa.field("token_ids", pa.list_(pa.int32())),
        pa.field("behaviour_logp", pa.list_(pa.float32())),
        pa.field("finish_reason", pa.string()),
        pa.field("policy_logp", pa.list_(pa.float32())),
    ]
)


class PartialCompletions:
    """The finished completions of one share, each under the number of its row in the directory.

    What an earlier process left is read at the start. The files stay until the directory is
    complete.
    """

    def __init__(self, folder: Path, name: str, *, size: int) -> None:
        self._folder, self._prefix, self._size = folder, f"_spool-{name}", size
        self._waiting: list[tuple[int, Completion]] = []
        self._files = sorted(folder.glob(f"{self._prefix}-*.arrow"))
        self.known = {row: completion for path in self._files for row, completion in _read(path)}

    def add(self, row: int, completion: Completion) -> None:
        """Keeps a completion; they are written `size` at a time."""
        self._waiting.append((row, completion))
        if len(self._waiting) >= self._size:
            self._write()

    def _write(self) -> None:
        number = int(self._files[-1].stem.rpartition("-")[2]) + 1 if self._files else 0
        path = self._folder / f"{self._prefix}-{number:06d}.arrow"
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
        atomic.write_atomic(path, sink.getvalue().to_pybytes())
        self._files.append(path)
        self._waiting = []


def _read(path: Path) -> list[tuple[int, Completion]]:
    with pa.ipc.open_file(pa.BufferReader(atomic.read_bytes(path))) as reader:
        rows = reader.read_all().to_pylist()
    return [(row.pop("row"), Completion(**row)) for row in rows]

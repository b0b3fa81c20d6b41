"""Rows that wait in a file without a name until they are shown."""

import bisect
import os
import tempfile
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.errors import UserError

ROWS_PER_PIECE = 256


class Spill:
    """Columns of text, written once and read piece by piece, also while more are written.

    The file is in the folder for temporary files and has no name: it is gone with the process.
    """

    def __init__(self, *names: str) -> None:
        self._schema = pa.schema([(name, pa.large_string()) for name in names])
        self._file = tempfile.TemporaryFile(prefix="rlvr-view-")  # noqa: SIM115
        self._places: list[tuple[int, int]] = []  # of each piece: its offset and size in bytes
        self._starts: list[int] = []  # of each piece: its first row
        self._bytes = self.rows = 0

    def add(self, **columns: pa.Array | Sequence[str | None]) -> None:
        """Appends rows; an error if the disk is full."""
        arrays = [_large(columns[name]) for name in self._schema.names]
        batch = pa.record_batch(arrays, schema=self._schema)
        for start in range(0, len(batch), ROWS_PER_PIECE):
            piece = batch.slice(start, ROWS_PER_PIECE)
            data = piece.serialize()
            try:
                self._file.write(data)
                self._file.flush()
            except OSError as error:
                raise UserError(
                    f"`{tempfile.gettempdir()}` takes no more completions: {error.strerror}",
                    "name a folder that has room: `export TMPDIR=FOLDER`",
                ) from error
            self._starts.append(self.rows)
            self._places.append((self._bytes, data.size))  # last: a reader may wait for it
            self._bytes += data.size
            self.rows += len(piece)

    def row(self, row: int) -> dict[str, str | None]:
        number = bisect.bisect_right(self._starts, row) - 1
        piece = self._piece(number).slice(row - self._starts[number], 1)
        values: dict[str, str | None] = piece.to_pylist()[0]
        return values

    def pieces(self, first: int = 0) -> Iterator[pa.RecordBatch]:
        """The pieces from one on, as many as there are when this begins."""
        return (self._piece(number) for number in range(first, len(self._places)))

    def _piece(self, number: int) -> pa.RecordBatch:
        offset, size = self._places[number]
        data = os.pread(self._file.fileno(), size, offset)
        return pa.ipc.read_record_batch(pa.py_buffer(data), self._schema)


def _large(column: pa.Array | Sequence[str | None]) -> pa.Array:
    if isinstance(column, pa.Array):
        return pc.cast(column, pa.large_string())
    return pa.array(column, pa.large_string())

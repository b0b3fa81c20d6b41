"""Columns of Parquet files taken as they are, where they are plain enough to need no rows.

What is not plain (nested objects, lists of other lengths, a missing id) is left to the rows'
reader, which says what is wrong.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rlvr_cli.interop import readers

ROWS_PER_BATCH = 2**20
TEXT_ROWS_PER_BATCH = 2**12


def header(file: Path) -> list[str]:
    """The names of a Parquet file's columns."""
    with readers.reporting_damage(file):
        names: list[str] = pq.read_schema(file).names
    return names


def plain(file: Path, candidates: Mapping[str, tuple[str, ...]]) -> list[str] | None:
    """The columns to read among the candidates; None if one of them is not plain."""
    with readers.reporting_damage(file):
        schema = pq.read_schema(file)
    names = dict.fromkeys(name for known in candidates.values() for name in known)
    read = [name for name in names if name in schema.names]
    nested = any(n.partition(".")[0] in schema.names for n in names if n not in schema.names)
    if nested or not all(_is_plain(schema.field(name).type) for name in read):
        return None
    return read


def _is_plain(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = kind.value_type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer)
    return any(test(kind) for test in (*tests, pa.types.is_floating, pa.types.is_boolean))


def batches(file: Path, names: list[str], *, texts: bool) -> Iterator[pa.RecordBatch]:
    """Record batches of the named columns, in bounded memory; texts come in smaller ones."""
    with readers.reporting_damage(file):
        schema = pq.read_schema(file)
        strings = [name for name in names if pa.types.is_string(schema.field(name).type)]
        opened = pq.ParquetFile(file, read_dictionary=[] if texts else strings)
        size = TEXT_ROWS_PER_BATCH if texts else ROWS_PER_BATCH
        yield from _ahead(opened.iter_batches(batch_size=size, columns=names))


def _ahead(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same, each one read while the one before is in use."""
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, parts, None)
        while (part := coming.result()) is not None:
            coming = reader.submit(next, parts, None)
            yield part


def columns(batch: pa.RecordBatch, names: Mapping[str, str]) -> dict[str, pa.Array] | None:
    """One value a completion under each name; None where rows must be looked at one by one."""
    arrays = {name: batch[column] for name, column in names.items() if column in batch.schema.names}
    if "id" not in arrays or arrays["id"].null_count:
        return None
    if any(_is_list(arrays[name]) for name in ("id", "prompt", "gold") if name in arrays):
        return None
    lists = {name: array for name, array in arrays.items() if _is_list(array)}
    if not lists:
        return arrays
    lengths = [pc.list_value_length(array) for array in lists.values()]
    if any(n.null_count or pc.min(n).as_py() == 0 or not n.equals(lengths[0]) for n in lengths):
        return None
    parents = pc.list_parent_indices(next(iter(lists.values())))
    arrays.pop("sample", None)
    return {
        name: pc.list_flatten(array) if name in lists else array.take(parents)
        for name, array in arrays.items()
    }


def _is_list(array: pa.Array) -> bool:
    return bool(pa.types.is_list(array.type) or pa.types.is_large_list(array.type))


def has_value(part: Any, name: str) -> bool:
    """Whether a column has a value in a record batch, or in rows."""
    if isinstance(part, pa.RecordBatch):
        return name in part.schema.names and bool(part[name].null_count < len(part))
    if "." in name:
        return any(readers.look_up(row, name) is not None for row in part)
    return any(row.get(name) is not None for row in part)


def text(values: Any) -> pa.Array:
    """Values as text: strings as they are, dictionaries of them too, numbers as Python has them."""
    if not isinstance(values, pa.Array):
        return pa.array([None if v is None else str(v) for v in values], pa.large_string())
    kind = values.type
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return values
    return pc.cast(values, pa.string())

"""Reads columns of Parquet files directly, if they are plain enough to need no rows.

Anything else (nested objects, lists of other lengths, a missing id) is left to the reader of rows,
which reports what is wrong.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rlvr_cli.interop import readers
from rlvr_cli.interop.names import PER_ROW, id_text

ROWS_PER_BATCH = 2**20
NESTED_ROWS_PER_BATCH = 2**16
TEXT_ROWS_PER_BATCH = 2**12


def header(file: Path) -> list[str]:
    """The names of a Parquet file's columns."""
    with readers.reporting_damage(file):
        names: list[str] = pq.read_schema(file).names
    return names


def plain(file: Path, candidates: Mapping[str, tuple[str, ...]]) -> list[str] | None:
    """The columns to read among the candidates; None if one of them is not plain.

    Prompts and golds, which are only compared with one another, may be of any type.
    """
    with readers.reporting_damage(file):
        schema = pq.read_schema(file)
    names = dict.fromkeys(name for known in candidates.values() for name in known)
    read = [name for name in names if name in schema.names]
    nested = any(n.partition(".")[0] in schema.names for n in names if n not in schema.names)
    compared = {*candidates.get("prompt", ()), *candidates.get("gold", ())}
    plain = [name for name in read if name not in compared]
    if nested or not all(_is_plain(schema.field(name).type) for name in plain):
        return None
    return read


def shares_verdicts(file: Path, texts: Iterable[str], verdicts: Iterable[str]) -> bool:
    """Whether rows hold lists of completions and a verdict that is no list."""
    schema = pq.read_schema(file)
    kinds = {name: schema.field(name).type for name in {*texts, *verdicts} & {*schema.names}}
    listed = {
        n for n, kind in kinds.items() if pa.types.is_list(kind) or pa.types.is_large_list(kind)
    }
    of_texts = {n for n in listed & {*texts} if _is_plain(kinds[n])}
    return bool(of_texts and {*verdicts} & kinds.keys() - listed)


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
        nested = any(pa.types.is_nested(schema.field(name).type) for name in names)
        size = TEXT_ROWS_PER_BATCH if texts else NESTED_ROWS_PER_BATCH if nested else ROWS_PER_BATCH
        yield from _ahead(opened.iter_batches(batch_size=size, columns=names))


def _ahead(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same, each one read while the one before is in use."""
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, parts, None)
        while (part := coming.result()) is not None:
            coming = reader.submit(next, parts, None)
            yield part


def columns(
    batch: pa.RecordBatch, names: Mapping[str, str]
) -> tuple[dict[str, pa.Array], np.ndarray] | None:
    """One value a completion under each name, and the row of each; None if rows must be looked at.

    Rows are counted from 0.
    """
    arrays = {name: batch[column] for name, column in names.items() if column in batch.schema.names}
    if "id" not in arrays or arrays["id"].null_count or _is_list(arrays["id"]):
        return None
    if "source" in arrays and _is_list(arrays["source"]):
        return None
    lists = {n: array for n, array in arrays.items() if n not in PER_ROW and _is_list(array)}
    if not lists:
        return arrays, np.arange(len(batch))
    if any(name in arrays and name not in lists for name in ("sample", "correct", "reward")):
        return None
    lengths = [pc.list_value_length(array) for array in lists.values()]
    if any(n.null_count or pc.min(n).as_py() == 0 or not n.equals(lengths[0]) for n in lengths):
        return None
    parents = pc.list_parent_indices(next(iter(lists.values())))
    flat = {
        name: pc.list_flatten(array) if name in lists else array.take(parents)
        for name, array in arrays.items()
    }
    return flat, parents.to_numpy()


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


def json_text(values: Any) -> pa.Array:
    """Values as text, messages and other objects as JSON."""
    if isinstance(values, pa.Array):
        if not pa.types.is_nested(values.type):
            return text(values)
        values = values.to_pylist()
    plain = [v if v is None or isinstance(v, str) else json.dumps(v, default=str) for v in values]
    return pa.array(plain, pa.large_string())


def ids(values: Any, *, is_text: bool = False) -> pa.Array:
    """Ids as text: see `id_text`. Where all of a file is text, so may be the numbers in it."""
    if is_text:
        values = [re.sub(r"^(-?\d+)\.0$", r"\1", value) for value in values]
    if isinstance(values, pa.Array) and not pa.types.is_floating(values.type):
        return text(values)
    plain = values.to_pylist() if isinstance(values, pa.Array) else values
    return pa.array([None if v is None else id_text(v) for v in plain], pa.large_string())


def encoded(array: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """The index of each value among values; null is one of them where it occurs."""
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    values, indices = pc.cast(array.dictionary, pa.large_string()), array.indices
    if indices.null_count:
        indices = pc.fill_null(indices, len(values))
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
    return indices.to_numpy(zero_copy_only=False), values


def keys(
    sources: pa.Array | None, ids: pa.Array
) -> tuple[list[tuple[str | None, str]], np.ndarray]:
    """The pairs of source and id that occur, and of each completion which it is."""
    index_N, values = encoded(ids)
    if sources is None:
        return [(None, name) for name in values.to_pylist()], index_N
    source_N, source_values = encoded(sources)
    pair_U, which_N = np.unique(
        source_N.astype(np.int64) * len(values) + index_N, return_inverse=True
    )
    source_names, names = source_values.to_pylist(), values.to_pylist()
    pairs = (divmod(pair, len(values)) for pair in pair_U.tolist())
    return [(source_names[s], names[i]) for s, i in pairs], which_N


def in_source(name: str, sources: pa.Array | None, size: int) -> pa.Array:
    """The sources [N] with `name` in front, or `name` by itself if it says as much."""
    if sources is None:
        sources = pa.nulls(size, pa.large_string())
    index_N, values = encoded(sources)
    named = [
        name if s is None or name.startswith(f"samples_{s}_") else f"{name}/{s}"
        for s in values.to_pylist()
    ]
    return pa.array(named, pa.large_string()).take(pa.array(index_N))

"""Safetensors files: several written at a time, each hashed as it is written.

The bytes are those of safetensors' own `save_file`. That one holds Python's lock while it writes,
so that files follow each other, copies a GPU's weights through pageable memory, and leaves them
to be read again for their digest.
"""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import torch
from huggingface_hub import split_torch_state_dict_into_shards
from safetensors.torch import load_file, save_file
from torch import Tensor

from rlvr_cli.models import file_digests
from rlvr_cli.runtime import cores

FILE_SIZE = 2 * 10**9  # bytes of one file's tensors: some ten files of a model of 1.5B parameters
PUBLISHED_SIZE = FILE_SIZE // 8  # of weights without moments, so that as many are hashed at a time
_CHUNK = 1 << 26
_MOST = 16  # files at a time; each takes a chunk of pinned memory of a GPU's tensors
_DTYPES = {  # in the order of safetensors' files
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int32: "I32",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.int64: "I64",
}


class Save(Protocol):
    """safetensors' `save_file`."""

    def __call__(
        self, tensors: dict[str, Tensor], path: Path | str, metadata: dict[str, str] | None = None
    ) -> None: ...


@contextlib.contextmanager
def saving() -> Iterator[Save]:
    """A `save_file(tensors, path, metadata)` that returns at once; at the end all are complete.

    The tensors must stay as they are until then.
    """
    files: list[Future[None]] = []
    with ThreadPoolExecutor(min(_MOST, 2 * cores.available())) as pool:

        def save(
            tensors: dict[str, Tensor], path: Path | str, metadata: dict[str, str] | None = None
        ) -> None:
            files.append(pool.submit(write, tensors, Path(path), metadata))

        yield save
    for file in files:
        file.result()


def read(folder: Path) -> dict[str, Tensor]:
    """The tensors of all safetensors files in a folder, on the host."""
    tensors: dict[str, Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        tensors |= load_file(path)
    return tensors


def write_split(save: Save, tensors: dict[str, Tensor], place: Path) -> None:
    """Writes `place`, or `STEM-00001-of-0000N` next to it where its tensors are larger."""
    split = split_torch_state_dict_into_shards(
        tensors,
        filename_pattern=place.stem + "{suffix}" + place.suffix,
        max_shard_size=FILE_SIZE,
    )
    for name, keys in split.filename_to_tensors.items():
        save({key: tensors[key] for key in keys}, place.with_name(name), None)


def write(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Writes one file, and keeps its digest in memory.

    Tensors of a type that is not in `_DTYPES` (float8, complex) are left to safetensors.
    """
    if not {tensor.dtype for tensor in tensors.values()} <= _DTYPES.keys():
        save_file(tensors, path, metadata)
        return
    names = sorted(tensors, key=lambda name: (-_rank(tensors[name]), name))
    digest = hashlib.sha256()
    with open(path, "wb") as file:
        for block in _blocks(_header(tensors, names, metadata), [tensors[name] for name in names]):
            digest.update(block)
            file.write(block)
        file.flush()
        file_digests.note(file.fileno(), digest.hexdigest())


def _rank(tensor: Tensor) -> int:
    return list(_DTYPES).index(tensor.dtype)


def _header(tensors: dict[str, Tensor], names: list[str], metadata: dict[str, str] | None) -> bytes:
    entries: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    end = 0
    for name in names:
        tensor = tensors[name]
        start, end = end, end + tensor.numel() * tensor.element_size()
        entries[name] = {
            "dtype": _DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _blocks(header: bytes, tensors: list[Tensor]) -> Iterator[memoryview]:
    """The header and the tensors' bytes; a block is valid until the next one is requested."""
    yield memoryview(header)
    for tensor in tensors:
        for chunk in _chunks(tensor):
            yield chunk.numpy().data


def on_host(tensor: Tensor) -> Tensor:
    """A copy in the host's memory; a GPU's comes through pinned memory, many times as fast."""
    copy = torch.empty(tensor.shape, dtype=tensor.dtype)
    into = copy.reshape(-1).view(torch.uint8)
    for number, chunk in enumerate(_chunks(tensor)):
        into[number * _CHUNK :][: len(chunk)] = chunk
    return copy


def _chunks(tensor: Tensor) -> Iterator[Tensor]:
    """The bytes of a tensor on the host; one from a GPU is valid until the next is requested."""
    flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    size = min(_CHUNK, len(flat))
    pinned = torch.empty(size, dtype=torch.uint8, pin_memory=True) if flat.is_cuda else None
    for start in range(0, len(flat), _CHUNK):
        chunk = flat[start : start + _CHUNK]
        yield chunk if pinned is None else pinned[: len(chunk)].copy_(chunk)

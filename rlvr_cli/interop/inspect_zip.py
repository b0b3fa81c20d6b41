"""The `.eval` logs of Inspect: zip files with a JSON file for each sample, and a header.

Each sample becomes a log of its own in the layout of Inspect's JSON logs, so that one is in memory.
Source: `src/inspect_ai/log/_recorders/eval.py` of UKGovernmentBEIS/inspect_ai.
"""

import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError, first_line

SUFFIX = ".eval"
_ZSTANDARD = 93  # the method's number; Python's zipfile knows it from 3.14 on
_MOST_BYTES = 1 << 30  # of a sample: a few bytes may unpack to any size
_HEADERS = ("header.json", "_journal/start.json")  # the second is that of a log not yet finished


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """The log of each sample in the file's order; an error for a file that is damaged or none."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = {
                info.filename: info for info in archive.infolist()
            }  # the last of a name counts
            header = next((name for name in _HEADERS if name in names), None)
            if header is None:
                raise DataError(
                    f"`{path}` is not a log of Inspect: it has no {' or '.join(_HEADERS)}",
                    "name a log, or unpack it and name the files in it",
                )
            log = _json(path, archive, names[header])
            log = {"version": None, "plan": {}, **log}
            for name, info in names.items():
                if name.startswith("samples/") and name.endswith(".json"):
                    yield log | {"samples": [_json(path, archive, info)]}
    except (zipfile.BadZipFile, zlib.error, OSError, struct.error) as error:
        raise _damaged(path, error) from error


def _json(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> dict[str, Any]:
    if info.file_size > _MOST_BYTES:
        raise DataError(
            f"`{path}` holds `{info.filename}` of {info.file_size:,} bytes; a sample may have "
            f"{_MOST_BYTES:,}",
            "unpack it and name the files in it",
        )
    try:
        value: dict[str, Any] = json.loads(_bytes(archive, info))
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"`{path}` holds `{info.filename}`, which is not JSON: {first_line(error)}",
            "copy or write it again",
        ) from error
    return value


def _bytes(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    if info.compress_type != _ZSTANDARD:
        return archive.read(info)
    import pyarrow as pa

    file = archive.fp
    assert file is not None, "the archive is open"
    file.seek(info.header_offset)
    local = file.read(30)  # the last four bytes are the lengths of the name and of what follows it
    file.seek(sum(struct.unpack("<HH", local[26:30])), 1)
    packed = pa.BufferReader(file.read(info.compress_size))
    data: bytes = pa.CompressedInputStream(packed, "zstd").read(info.file_size + 1)
    if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
        raise zipfile.BadZipFile(f"{info.filename} is damaged")
    return data


def _damaged(path: Path, error: Exception) -> DataError:
    return DataError(
        f"`{path}` is not a complete log of Inspect: {first_line(error)}", "copy or write it again"
    )

"""Opens files for reading, however they are compressed, with a plain error for anything else."""

import bz2
import contextlib
import gzip
import io
import json
import lzma
import shlex
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import IO, Any, TextIO

from rlvr_cli.errors import DataError
from rlvr_cli.runtime import stdin

# The ending of each compression, how its files begin, and what prints them.
_COMPRESSIONS = {
    ".gz": (b"\x1f\x8b", "zcat"),
    ".zst": (b"\x28\xb5\x2f\xfd", "zstdcat"),
    ".bz2": (b"BZh", "bzcat"),
    ".xz": (b"\xfd7zXZ\x00", "xzcat"),
}
_POINTER = b"version https://git-lfs.github.com/spec/"
_DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError)


def suffix(path: PurePath) -> str:
    """The ending of a path, without that of its compression."""
    return path.with_suffix("").suffix if path.suffix in _COMPRESSIONS else path.suffix


@contextlib.contextmanager
def text(path: Path, *, newline: str) -> Iterator[TextIO]:
    """The text of a file in UTF-8, with or without a byte order mark."""
    require_content(path)
    try:
        with _binary(path) as raw:
            refuse_other_encodings(path, raw.peek(4)[:4])
            with io.TextIOWrapper(raw, encoding="utf-8-sig", newline=newline) as file:
                yield file
    except UnicodeDecodeError as error:
        raise _no_utf_8(path, error) from error
    except _DAMAGE as error:
        raise _unreadable(path, error) from error


def head(path: Path, size: int = 4096) -> bytes:
    """The first bytes of a file, decompressed."""
    try:
        with _binary(path) as raw:
            return bytes(raw.peek(size)[:size])
    except _DAMAGE as error:
        raise _unreadable(path, error) from error


def require_content(path: Path) -> None:
    """An error for what git-lfs left in place of a file."""
    try:
        with open(path, "rb") as file:
            is_pointer = file.read(len(_POINTER)) == _POINTER
    except OSError as error:
        raise _unreadable(path, error) from error
    if is_pointer:
        raise DataError(
            f"`{stdin.shown(path)}` is a pointer of git-lfs, which holds no rows: the file itself "
            "was not downloaded",
            "run `git lfs pull` in its repository",
        )


def refuse_other_encodings(path: Path, start: bytes) -> None:
    encoding = json.detect_encoding(start).upper().replace("-LE", "LE").replace("-BE", "BE")
    if not encoding.startswith("UTF-8"):
        raise DataError(
            f"`{stdin.shown(path)}` is text in {encoding}, rlvr reads UTF-8",
            f"convert it: `{shown_by(path)} | iconv -f {encoding} -t UTF-8 > utf8{suffix(path)}`",
        )


def shown_by(path: Path) -> str:
    """The command that prints a file."""
    if stdin.is_spooled(path):
        return "cat"
    command = _COMPRESSIONS[path.suffix][1] if path.suffix in _COMPRESSIONS else "cat"
    return f"{command} {shlex.quote(str(path))}"


def line_hint(path: Path, number: int) -> str:
    """How to look at a line of a file."""
    if stdin.is_spooled(path):
        return f"look at it with `sed -n {number}p` at the end of the pipe"
    if path.suffix in _COMPRESSIONS:
        return f"look at it with `{shown_by(path)} | sed -n {number}p`"
    return f"look at it with `sed -n {number}p {shlex.quote(str(path))}`"


def _binary(path: Path) -> io.BufferedReader:
    """The bytes of a file, decompressed; its ending says how, else its first bytes."""
    ending = path.suffix
    if ending not in _COMPRESSIONS:
        with open(path, "rb") as file:
            start = file.read(8)
        endings = (name for name, (magic, _) in _COMPRESSIONS.items() if start.startswith(magic))
        ending = next(endings, "")
    opened: IO[bytes] | Any
    if ending == ".zst":
        import pyarrow as pa

        opened = pa.input_stream(path, compression="zstd")
    elif ending:
        openers: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
        opened = openers[ending](path)
    else:
        opened = open(path, "rb", buffering=0)  # noqa: SIM115
    return io.BufferedReader(opened, 2**16)


def _no_utf_8(path: Path, error: UnicodeDecodeError) -> DataError:
    """The refusal of a file by the first line that is no UTF-8."""
    number = 0
    with contextlib.suppress(*_DAMAGE), _binary(path) as raw:
        for line in raw:
            number += 1
            try:
                line.decode()
            except UnicodeDecodeError as first:
                error = first
                break
    return DataError(
        f"`{stdin.shown(path)}` line {number} is not UTF-8 text: {error}",
        line_hint(path, number),
    )


def _unreadable(path: Path, error: BaseException) -> DataError:
    return DataError(f"cannot read `{stdin.shown(path)}`: {error}", "check the file")

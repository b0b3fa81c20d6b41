"""Files in whatever compression and encoding they come."""

import bz2
import gzip
import json
import lzma
import shlex
import subprocess

import pyarrow as pa
import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.interop import readers

ROWS = [{"id": "a", "completion": "größer"}, {"id": "b", "completion": "x"}]
TEXTS = {
    "jsonl": "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS),
    "json": json.dumps(ROWS, ensure_ascii=False, indent=1),
    "csv": "id,completion\na,größer\nb,x\n",
}


def zstd(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)


COMPRESSIONS = {"gz": gzip.compress, "zst": zstd, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("ending", COMPRESSIONS)
@pytest.mark.parametrize("kind", TEXTS)
def test_every_compression_is_read(tmp_path, kind, ending):
    path = tmp_path / f"rows.{kind}.{ending}"
    path.write_bytes(COMPRESSIONS[ending](TEXTS[kind].encode()))
    assert readers.read(path) == readers.read(tmp_path) == ROWS


def test_frames_one_after_the_other_are_read_to_the_last(tmp_path):
    halves = [line.encode() for line in TEXTS["jsonl"].splitlines(keepends=True)]
    (tmp_path / "rows.jsonl.zst").write_bytes(b"".join(map(zstd, halves)))
    assert readers.read(tmp_path / "rows.jsonl.zst") == ROWS


def test_what_is_compressed_under_a_plain_name_is_read(tmp_path):
    (tmp_path / "rows.jsonl").write_bytes(zstd(TEXTS["jsonl"].encode()))
    assert readers.read(tmp_path / "rows.jsonl") == ROWS


@pytest.mark.parametrize("ending", COMPRESSIONS)
@pytest.mark.parametrize("damage", ["cut", "none"])
def test_a_damaged_file_is_refused(tmp_path, ending, damage):
    data = COMPRESSIONS[ending](TEXTS["jsonl"].encode() * 2000)
    path = tmp_path / f"rows.jsonl.{ending}"
    path.write_bytes(data[: len(data) // 2] if damage == "cut" else b"hello")
    with pytest.raises(DataError, match=rf"rows\.jsonl\.{ending}"):
        readers.read(path)


POINTER = b"""version https://git-lfs.github.com/spec/v1
oid sha256:1e08337133092e7b10fd10d09b48fa833f7e39bbd773379de063c351b1624048
size 886
"""  # biomarkersParkinson/paradigma, issue 250


@pytest.mark.parametrize("name", ["r.jsonl", "r.json", "r.csv", "r.parquet", "r.jsonl.gz", "r.txt"])
def test_a_pointer_of_git_lfs_is_called_one(tmp_path, refused, name):
    (tmp_path / name).write_bytes(POINTER)
    err = refused(3, "eval-passk", tmp_path / name)
    assert "is a pointer of git-lfs" in err and "`git lfs pull`" in err


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_other_encodings_are_named_and_the_hint_converts_them(tmp_path, kind, encoding):
    path = tmp_path / f"rows {kind}.{kind}"
    path.write_bytes(TEXTS[kind].encode(encoding))
    with pytest.raises(DataError, match=r"is text in UTF-(16|32)") as error:
        readers.read(path)
    subprocess.run(error.value.hint.split("`")[1], shell=True, cwd=tmp_path, check=True)
    assert readers.read(tmp_path / f"utf8.{kind}") == ROWS


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_the_line_that_is_no_utf_8_is_named_and_the_hint_shows_it(tmp_path, ending):
    data = b'{"id": "a"}\n' * 3000 + b'{"id": "\xff"}\n'
    path = tmp_path / f"rows.jsonl{ending}"
    path.write_bytes(gzip.compress(data) if ending else data)
    with pytest.raises(DataError, match="line 3001 is not UTF-8 text") as error:
        readers.read(path)
    command = error.value.hint.split("`")[1]
    shown = subprocess.run(command, shell=True, capture_output=True, check=True).stdout
    assert shown == b'{"id": "\xff"}\n'


def test_cells_of_any_size_are_read(tmp_path):
    text = "x" * 300_000  # csv refuses more than 131,072 characters unless it is told otherwise
    (tmp_path / "rows.csv").write_text(f"id,completion\na,{text}\n")
    assert readers.read(tmp_path / "rows.csv") == [{"id": "a", "completion": text}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,completion\na,x\nb", "row 2 has fewer cells than the header"),
        ("id,completion\na,x,y\n", r"row 1 has more cells than the header: \['y'\]"),
        ("id,correct,correct\na,1,0\n", "has several columns `correct`"),
    ],
)
def test_rows_of_another_width_are_refused(tmp_path, text, message):
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        readers.read(tmp_path / "rows.csv")


def test_paths_with_spaces_are_quoted_in_hints(tmp_path):
    path = tmp_path / "my rows.jsonl"
    path.write_text('{"id": 1}\n{no\n')
    with pytest.raises(DataError) as error:
        readers.read(path)
    assert shlex.split(error.value.hint.split("`")[1]) == ["sed", "-n", "2p", str(path)]

"""Zip files of Inspect, whatever compressed what is in them."""

import json
import struct
import zipfile
import zlib

import pyarrow as pa
import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.interop import readers

HEADER = {"version": 2, "eval": {"task": "t"}, "plan": {}}


def written(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in members:
            archive.writestr(name, value if isinstance(value, str) else json.dumps(value))
    return path


def zstandard(path, members, frames):
    """A zip file by hand, as Inspect writes it: method 93, each member in several frames."""
    body, central = b"", b""
    for name, value in members:
        data = json.dumps(value).encode()
        step = -(-len(data) // frames)
        pieces = [data[at : at + step] for at in range(0, len(data), step)]
        packed = b"".join(pa.compress(piece, "zstd", asbytes=True) for piece in pieces)
        fields = (20, 0, 93, 0, 0, zlib.crc32(data), len(packed), len(data), len(name), 0)
        offset = len(body)
        body += b"PK\3\4" + struct.pack("<HHHHHIIIHH", *fields) + name.encode() + packed
        central += (b"PK\1\2" + struct.pack("<HHHHHHIIIHHHHHII", 20, *fields, 0, 0, 0, 0, offset)
                    + name.encode())  # fmt: skip
    end = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(central), len(body), 0)
    path.write_bytes(body + central + b"PK\5\6" + end)
    return path


@pytest.mark.parametrize("frames", [1, 3])
def test_members_of_zstandard_are_read(tmp_path, frames):
    members = [("samples/a_epoch_1.json", {"id": "a"}), ("header.json", HEADER)]
    path = zstandard(tmp_path / "log.eval", members, frames)
    assert readers.read(path) == [HEADER | {"samples": [{"id": "a"}]}]


def test_a_log_that_was_not_finished_has_its_journal(tmp_path):
    members = [("_journal/start.json", {"version": 2, "eval": {"task": "t"}}),
               ("samples/a_epoch_1.json", {"id": "a"})]  # fmt: skip
    (row,) = readers.read(written(tmp_path / "log.eval", members))
    assert row["eval"] == {"task": "t"} and row["samples"] == [{"id": "a"}]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_was_written_again_counts_once(tmp_path):
    members = [("samples/a_epoch_1.json", {"id": "old"}), ("header.json", HEADER),
               ("samples/a_epoch_1.json", {"id": "new"})]  # fmt: skip
    (row,) = readers.read(written(tmp_path / "log.eval", members))
    assert row["samples"] == [{"id": "new"}]


def test_what_is_no_log_or_damaged_is_said(tmp_path):
    with pytest.raises(DataError, match=r"is not a log of Inspect: it has no header\.json"):
        readers.read(written(tmp_path / "other.eval", [("a.txt", "a")]))
    cut = tmp_path / "cut.eval"
    whole = written(tmp_path / "log.eval", [("header.json", HEADER)]).read_bytes()
    cut.write_bytes(whole[:-10])
    with pytest.raises(DataError, match="is not a complete log of Inspect"):
        readers.read(cut)
    text = written(tmp_path / "text.eval", [("header.json", HEADER), ("samples/a.json", "{")])
    with pytest.raises(DataError, match=r"holds `samples/a\.json`, which is not JSON"):
        readers.read(text)
    broken = zstandard(tmp_path / "z.eval", [("samples/a.json", {"id": "a"}),
                                             ("header.json", HEADER)], 1)  # fmt: skip
    data = bytearray(broken.read_bytes())
    data[50] ^= 255
    broken.write_bytes(data)
    with pytest.raises(DataError, match="is not a complete log of Inspect"):
        readers.read(broken)


def test_a_member_that_would_fill_the_memory_is_refused_before_it_is_unpacked(tmp_path):
    members = [("header.json", HEADER), ("samples/a_epoch_1.json", {"id": "a"})]
    path = zstandard(tmp_path / "log.eval", members, 1)
    data = path.read_bytes()
    place = data.rindex(b"PK\1\2") + 24  # the size of the last member, unpacked
    path.write_bytes(data[:place] + struct.pack("<I", (1 << 30) + 1) + data[place + 4 :])
    with pytest.raises(DataError, match="1,073,741,825 bytes"):
        readers.read(path)


def test_a_member_that_says_less_than_it_unpacks_to_is_damaged(tmp_path):
    members = [("header.json", HEADER), ("samples/a_epoch_1.json", {"id": "a" * 10_000})]
    path = zstandard(tmp_path / "log.eval", members, 1)
    data = path.read_bytes()
    place = data.rindex(b"PK\1\2") + 24
    path.write_bytes(data[:place] + struct.pack("<I", 5) + data[place + 4 :])
    with pytest.raises(DataError, match="is damaged"):
        readers.read(path)

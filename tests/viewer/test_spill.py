import threading

import pytest

from rlvr_cli.errors import UserError
from rlvr_cli.viewer.spill import ROWS_PER_PIECE, Spill


@pytest.fixture
def spill():
    return Spill("text", "other")


def test_every_row_comes_back_from_its_piece(spill):
    texts = [f"text {n} é漢" for n in range(3 * ROWS_PER_PIECE + 7)]
    spill.add(text=texts[:300], other=[None] * 300)
    spill.add(text=texts[300:], other=[None] * (len(texts) - 300))
    assert spill.rows == len(texts)
    assert [spill.row(n)["text"] for n in range(len(texts))] == texts
    assert spill.row(5) == {"text": texts[5], "other": None}


def test_pieces_hold_all_rows_in_order(spill):
    texts = list(map(str, range(1000)))
    spill.add(text=texts, other=texts)
    read = [t for piece in spill.pieces() for t in piece["text"].to_pylist()]
    assert read == texts and sum(map(len, spill.pieces(1))) == 1000 - ROWS_PER_PIECE


def test_rows_are_read_while_more_are_written(spill):
    spill.add(text=["a"], other=["b"])
    writing = threading.Thread(
        target=lambda: [spill.add(text=[str(n)] * 9, other=["x"] * 9) for n in range(300)]
    )
    writing.start()
    while writing.is_alive():
        assert spill.row(0) == {"text": "a", "other": "b"}
        assert sum(map(len, spill.pieces())) % 9 == 1
    writing.join()
    assert spill.rows == 2701 and spill.row(2700)["text"] == "299"


def test_no_file_is_left_or_named(spill, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    other = Spill("text")
    other.add(text=["a"])
    assert not list(tmp_path.iterdir()) and other.row(0) == {"text": "a"}


@pytest.mark.skipif(not __import__("os").path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_is_an_error_that_names_tmpdir(spill):
    with open("/dev/full", "wb", buffering=0) as full:
        spill._file.close()
        spill._file = full
        with pytest.raises(UserError) as caught:
            spill.add(text=["a" * 100], other=["b"])
    assert "No space left" in str(caught.value) and "TMPDIR=" in caught.value.hint

"""Pickles in data: texts are read from them, and whatever they would call is not called."""

import base64
import pickle
import zlib
from pathlib import Path

import pytest

from rlvr_cli.verification.parsing import packed_tests


class _Evil:
    def __reduce__(self):
        return Path.touch, (Path("ran"),)


def packed(value):
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


def test_texts_and_lists_of_them_are_read():
    for value in ("[1]", ["a", {"input": "1\n"}], {"a": [None, True, 2]}):
        assert packed_tests.unpacked(packed(value)) == value


@pytest.mark.parametrize("value", [_Evil(), ["a", _Evil()], {"a": _Evil()}])
def test_what_would_call_something_is_refused(value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(packed_tests.Unreadable):
        packed_tests.unpacked(packed(value))
    assert not Path("ran").exists()


def test_a_few_bytes_that_unpack_to_any_size_are_refused():
    bomb = base64.b64encode(zlib.compress(bytes(packed_tests._MOST + 1), 9)).decode()
    with pytest.raises(packed_tests.Unreadable, match="MiB"):
        packed_tests.unpacked(bomb)

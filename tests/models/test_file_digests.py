"""sha256 of files, remembered until the file may have changed."""

import hashlib
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from rlvr_cli.models import file_digests


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "rlvr" / "digests"


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """A large file that was written a while ago; not to be changed."""
    path = tmp_path_factory.mktemp("old") / "model.safetensors"
    path.write_bytes(os.urandom(file_digests.REMEMBERED))
    time.sleep(2.1)
    return path


def true_digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def record_of(cache):
    (record,) = cache.iterdir()
    return record


def test_digests_are_those_of_the_files_in_their_order(cache, tmp_path):
    paths = [tmp_path / f"{n}.bin" for n in range(9)]
    for n, path in enumerate(paths):
        path.write_bytes(bytes([n]) * n * 1000)
    assert file_digests.sha256_of(paths) == [true_digest(path) for path in paths]
    assert file_digests.sha256_of([]) == []
    assert not cache.exists()


def test_what_was_read_once_is_taken_from_memory(cache, old):
    assert file_digests.sha256_of([old]) == [true_digest(old)]
    known = json.loads(record_of(cache).read_text())
    assert known["path"] == str(old)
    record_of(cache).write_text(json.dumps(known | {"sha256": "f" * 64}))
    assert file_digests.sha256_of([old]) == ["f" * 64]


@pytest.mark.parametrize("content", ["", "{", "[]", '"x"', "{}", "\0" * 99, "cut"])
def test_a_memory_that_is_damaged_is_written_anew(cache, old, content):
    file_digests.sha256_of([old])
    text = record_of(cache).read_text()
    record_of(cache).write_text(text[:-20] if content == "cut" else content)
    assert file_digests.sha256_of([old]) == [true_digest(old)]
    assert record_of(cache).read_text() == text


@pytest.mark.parametrize("key", ["size", "mtime_ns", "ctime_ns", "inode", "device"])
def test_a_file_that_is_not_the_one_remembered_is_read(cache, old, key):
    file_digests.sha256_of([old])
    known = json.loads(record_of(cache).read_text())
    other = known | {key: known[key] + 1, "sha256": "f" * 64}
    record_of(cache).write_text(json.dumps(other))
    assert file_digests.sha256_of([old]) == [true_digest(old)]


def test_a_change_that_keeps_size_and_time_is_seen(cache, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(bytes(file_digests.REMEMBERED))
    time.sleep(2.1)
    before, seen = file_digests.sha256_of([path]), path.stat()
    assert len(list(cache.iterdir())) == 1
    with open(path, "r+b") as file:
        file.write(b"x")
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert path.stat().st_mtime_ns == seen.st_mtime_ns
    assert file_digests.sha256_of([path]) == [true_digest(path)] != before


def test_a_file_that_was_just_written_is_not_remembered(cache, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(bytes(file_digests.REMEMBERED))
    file_digests.sha256_of([path])
    assert not cache.exists()


def test_many_at_once_agree(cache, old):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: file_digests.sha256_of([old, old]), range(16)))
    assert found == [[true_digest(old)] * 2] * 16
    assert json.loads(record_of(cache).read_text())["sha256"] == true_digest(old)


def test_a_cache_that_cannot_be_written_is_done_without(old, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert file_digests.sha256_of([old]) == [true_digest(old)]

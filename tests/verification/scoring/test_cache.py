"""Verdicts that are known already."""

import sqlite3

import pytest

from rlvr_cli.protocols import Verdict
from rlvr_cli.verification.scoring import cache
from rlvr_cli.verification.scoring.cache import Cache

RIGHT, WRONG = Verdict("ok", 1.0, True, "5\ud800"), Verdict("no_answer", 0.0, False)


def key(number):
    return number.to_bytes(32, "big")


def test_what_is_put_is_found_again_also_by_another_process(tmp_path):
    path = tmp_path / "deep" / "file.sqlite"
    verdicts = Cache(path)
    assert verdicts.get([key(1)]) == {}
    verdicts.put({key(1): RIGHT, key(2): WRONG})
    for reader in (verdicts, Cache(path)):
        assert reader.get([key(1), key(2), key(3)]) == {key(1): RIGHT, key(2): WRONG}
        assert reader.trouble is None


def test_a_time_out_is_remembered_within_a_run_alone(tmp_path):
    verdicts = Cache(tmp_path / "file")
    faults = {key(i): Verdict(s) for i, s in enumerate(["timeout", "oom", "error"])}
    verdicts.put(faults | {key(9): Verdict("bad_gold", reason="it is empty")})
    assert verdicts.get(faults) == faults
    assert list(Cache(tmp_path / "file").get([*faults, key(9)])) == [key(9)]


def test_more_keys_than_sqlite_takes_at_once_are_found(tmp_path):
    Cache(tmp_path / "file").put({key(i): RIGHT for i in range(3000)})
    assert len(Cache(tmp_path / "file").get([key(i) for i in range(4000)])) == 3000


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(cache, "IN_MEMORY", 10)
    verdicts = Cache()
    verdicts.put({key(i): RIGHT for i in range(25)})
    assert list(verdicts.get([key(i) for i in range(25)])) == [key(i) for i in range(15, 25)]


def test_what_was_used_last_is_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(cache, "IN_MEMORY", 3)
    verdicts = Cache()
    verdicts.put({key(i): Verdict("timeout") for i in range(3)})
    verdicts.get([key(0)])
    verdicts.put({key(1): Verdict("timeout")})
    verdicts.put({key(3): RIGHT})
    assert sorted(verdicts.get([key(i) for i in range(4)])) == [key(0), key(1), key(3)]


@pytest.mark.parametrize("content", [b"", b"not a database" * 100, None])
def test_a_file_that_cannot_be_used_is_gone_on_without(tmp_path, content):
    path = tmp_path / "file"
    path.mkdir() if content is None else path.write_bytes(content)
    verdicts = Cache(path)
    verdicts.put({key(1): RIGHT})
    assert verdicts.get([key(1), key(2)]) == {key(1): RIGHT}
    assert (verdicts.trouble is None) == (content == b"")


def test_a_row_that_is_no_verdict_is_not_believed(tmp_path):
    path = tmp_path / "file"
    Cache(path).put({key(1): RIGHT})
    with sqlite3.connect(path) as file:
        file.execute("update verdicts set verdict = '{\"reward\": 1'")
    verdicts = Cache(path)
    assert verdicts.get([key(1)]) == {} and verdicts.trouble


def test_the_default_path_follows_the_standard(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.default_path() == tmp_path / "rlvr" / "verdicts.sqlite"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert str(cache.default_path()) == "/home/somebody/.cache/rlvr/verdicts.sqlite"

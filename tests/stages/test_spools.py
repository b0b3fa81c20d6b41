"""Completions that an engine had finished when it was killed: used if they are as written."""

import random
import shutil
from pathlib import Path

import pytest

from rlvr_cli.engines.rollout.graph import GraphEngine

STORED = Path(__file__).parent.parent / "stored" / "0.1.0" / "half" / "rollouts-spooled"
WORDS = ["-n", "4", "--max-new-tokens", "8", "--engine", "graph:rows=4", "--prompts-per-part", "3"]


@pytest.fixture
def asked(monkeypatch):
    """How many completions the engine is asked for; it hands them out one by one on a CPU too."""
    asked, real = [], GraphEngine.generate

    def generate(self, requests, sampling, limits=None):
        asked.append(len(requests))
        return real(self, requests, sampling, limits)

    always = property(lambda self: True, lambda self, value: None)
    monkeypatch.setattr(GraphEngine, "supports_continuous_batching", always, raising=False)
    monkeypatch.setattr(GraphEngine, "generate", generate)
    return asked


@pytest.fixture
def killed(rlvr, chain, tmp_path, monkeypatch, asked) -> Path:
    """A directory that was cut off when its first spool was written."""
    from rlvr_cli.storage.partial_completions import PartialCompletions

    write = PartialCompletions._write

    def and_stop(self):
        write(self)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(PartialCompletions, "_write", and_stop)
        assert rlvr("rollout", chain / "prompts", *WORDS, "--out", tmp_path / "killed").code == 75
    asked.clear()
    return tmp_path / "killed"


@pytest.mark.slow
def test_a_spool_with_a_flipped_bit_is_said_and_sampled_again(
    rlvr, chain, tmp_path, files_of, asked, killed
):
    assert rlvr("rollout", chain / "prompts", *WORDS, "--out", tmp_path / "whole").code == 0
    everything, expected = asked.pop(), files_of(tmp_path / "whole")
    (spool,) = killed.glob("_spool-*")
    good, chance = spool.read_bytes(), random.Random(3)
    again = tmp_path / "again"
    for flips in (0, 1):
        shutil.rmtree(again, ignore_errors=True)
        shutil.copytree(killed, again)
        damaged = bytearray(good)
        for bit in chance.sample(range(8 * len(good)), flips):
            damaged[bit // 8] ^= 1 << bit % 8
        (again / spool.name).write_bytes(damaged)
        ran = rlvr("rollout", chain / "prompts", *WORDS, "--out", again)
        assert ran.code == 0
        assert not flips or files_of(again) == expected  # smaller batches may round differently
        assert ("do not match their checksums" in ran.err) == bool(flips)
        assert (asked.pop() == everything) == bool(flips)


@pytest.mark.slow
def test_no_flipped_bit_and_no_cut_of_a_spool_is_ever_read(killed):
    from rlvr_cli.storage.partial_completions import PartialCompletions

    (spool,) = killed.glob("_spool-*")
    good, chance = spool.read_bytes(), random.Random(4)
    cuts = [good[: chance.randrange(len(good))] for _ in range(50)]
    flipped = []
    for bit in chance.sample(range(8 * len(good)), 500):
        data = bytearray(good)
        data[bit // 8] ^= 1 << bit % 8
        flipped.append(bytes(data))
    for data in [*flipped, *cuts, b"\0" * len(good), b""]:
        spool.write_bytes(data)
        read = PartialCompletions(killed, "any plan", range(1000), size=9)
        assert (read.known, read.unread) == ({}, 1)


@pytest.mark.slow
def test_spools_of_another_plan_or_without_a_checksum_are_not_read(
    rlvr, chain, tmp_path, files_of, asked, killed
):
    assert rlvr("rollout", chain / "prompts", *WORDS, "--out", tmp_path / "whole").code == 0
    other = [*WORDS, "--temperature", "0.5"]
    assert rlvr("rollout", chain / "prompts", *other, "--out", tmp_path / "other").code == 0
    ran = rlvr("rollout", chain / "prompts", *other, "--out", killed)
    assert ran.code == 0 and "do not match their checksums" in ran.err
    assert files_of(killed) == files_of(tmp_path / "other")
    (tmp_path / "old").mkdir()
    for path in STORED.glob("_spool-*"):
        shutil.copy(path, tmp_path / "old")
    ran = rlvr("rollout", chain / "prompts", *WORDS, "--out", tmp_path / "old")
    assert ran.code == 0 and "3 files of completions" in ran.err
    assert files_of(tmp_path / "old") == files_of(tmp_path / "whole")

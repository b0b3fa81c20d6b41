"""The protocol by which processes share a directory, as a state machine with a clock of its own."""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rlvr_cli.storage import leases, schema
from rlvr_cli.storage.journal import part_name
from rlvr_cli.storage.leases import Leases
from rlvr_cli.storage.part_writer import PartWriter, tidy
from rlvr_cli.storage.plan import Plan

PARTS = 3
PLAN = Plan("scores", "score", {"verifier": "expression"}, {}, PARTS)
PROCESSES = st.integers(0, 2)
INDICES = st.integers(0, PARTS - 1)


def rows(index: int, maker: int = 0) -> pa.Table:
    """A part; `maker` stands for what differs between devices that round differently."""
    columns = {
        "prompt_id": [f"p{index}"], "sample_index": [0], "reward": [maker / 8], "correct": [True],
        "extracted": [None], "reason": [None], "status": ["ok"],
    }  # fmt: skip
    return pa.table(columns, schema.schema("scores"))


class Process:
    """One maker of parts, on a machine of its own or on that of the others."""

    def __init__(self, folder: Path, number: int, machine: str, clock) -> None:
        self.number, self.beats = number, True
        self.held = Leases(folder, clock=clock, machine=machine, pulse=False)
        self.writer = PartWriter(folder, PLAN, self.held)
        self.held.open()
        self.writer.begin()
        self.writer.refresh()
        self.taken: set[int] = set()

    def die(self) -> None:
        """What the kernel does at a kill: descriptors are closed, and nothing is tidied."""
        os.close(self.held._descriptor)


class Sharing(RuleBasedStateMachine):
    @initialize(machines=st.lists(st.sampled_from(["here", "there"]), min_size=3, max_size=3))
    def start(self, machines) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.machines, self.now = machines, 0.0
        self.offsets = [0.0, 3600.0, -1e9]  # of each process' clock, which is compared with none
        self.processes: dict[int, Process] = {}
        self.whole: dict[str, str] = {}
        self.damaged: set[str] = set()

    def opened(self, number: int) -> Process:
        if number not in self.processes:
            clock = lambda: self.now + self.offsets[number]  # noqa: E731
            self.processes[number] = Process(self.folder, number, self.machines[number], clock)
        return self.processes[number]

    @rule(number=PROCESSES, index=INDICES)
    def take(self, number, index) -> None:
        process = self.opened(number)
        if index not in process.taken and process.writer.claim(index):
            process.taken.add(index)

    @rule(number=PROCESSES, data=st.data())
    def put(self, number, data) -> None:
        process = self.opened(number)
        if process.taken:
            index = data.draw(st.sampled_from(sorted(process.taken)))
            process.taken.remove(index)
            process.writer.write(index, rows(index, number))
            self.damaged.discard(part_name(index))

    @rule(number=PROCESSES)
    def stall_or_come_back(self, number) -> None:
        self.opened(number).beats ^= True

    @rule(number=PROCESSES)
    def die(self, number) -> None:
        if process := self.processes.pop(number, None):
            process.die()

    @rule(number=PROCESSES)
    def leave(self, number) -> None:
        if process := self.processes.pop(number, None):
            process.held.close()

    @rule(seconds=st.sampled_from([1, leases.BEAT_S, leases.PATIENCE_S]))
    def pass_time(self, seconds) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + leases.BEAT_S, end)
            for process in self.processes.values():
                if process.beats:
                    process.held.beat()

    @rule(index=INDICES)
    def damage(self, index) -> None:
        path = self.folder / part_name(index)
        if path.exists() and not (self.folder / "_manifest.json").exists():
            path.write_bytes(path.read_bytes()[:-1])
            self.damaged.add(path.name)
            self.whole.pop(path.name, None)

    @rule(number=PROCESSES)
    def finish(self, number) -> None:
        process = self.opened(number)
        process.writer.refresh()
        if len(process.writer.done) == PARTS:
            process.writer.finish(lambda shards: {})

    @invariant()
    def a_whole_part_keeps_its_content(self) -> None:
        for path in self.folder.glob("part-*") if hasattr(self, "folder") else ():
            if path.name not in self.damaged:
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                assert self.whole.setdefault(path.name, digest) == digest

    @invariant()
    def a_manifest_is_over_whole_parts(self) -> None:
        manifest = getattr(self, "folder", Path()) / "_manifest.json"
        if manifest.exists() and not self.damaged:
            listed = json.loads(manifest.read_text())["parts"]
            assert {part["name"]: part["sha256"] for part in listed} == self.whole
            assert len(listed) == PARTS

    def teardown(self) -> None:
        """One process that lives completes what all others left, within their patience."""
        if not hasattr(self, "folder"):
            return
        for process in self.processes.values():
            process.die()
        last = Process(self.folder, 0, "last", lambda: self.now)
        for _ in range(3):
            for index in range(PARTS):
                if last.writer.claim(index):
                    last.writer.write(index, rows(index))
            last.writer.refresh()
            if len(last.writer.done) == PARTS and last.writer.finish(lambda shards: {}) is not None:
                break
            self.now += leases.PATIENCE_S
        last.held.close()
        tidy(self.folder)
        names = {"_manifest.json", *map(part_name, range(PARTS))}
        assert {path.name for path in self.folder.iterdir()} == names
        self.damaged.clear()
        for name in names - {"_manifest.json"}:
            digest = hashlib.sha256((self.folder / name).read_bytes()).hexdigest()
            assert self.whole.setdefault(name, digest) == digest or name not in self.whole
        shutil.rmtree(self.folder)


Sharing.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestSharing = Sharing.TestCase


def test_a_part_that_a_dead_process_held_is_free_at_once_on_its_machine(tmp_path):
    child = os.fork()
    if child == 0:
        held = Leases(tmp_path)
        held.open()
        held.acquire(0)
        os._exit(0)
    os.waitpid(child, 0)
    assert (tmp_path / "_lease-00000.1").exists()
    held = Leases(tmp_path, clock=lambda: 0.0)
    held.open()
    assert held.acquire(0) and (tmp_path / "_lease-00000.2").exists()
    held.close()
    assert not list(tmp_path.glob("_lease-*"))


def test_a_part_that_a_process_elsewhere_holds_is_free_when_it_no_longer_moves(tmp_path):
    now = [0.0]
    theirs = Leases(tmp_path, machine="there", pulse=False, clock=lambda: -5.0)
    ours = Leases(tmp_path, machine="here", pulse=False, clock=lambda: now[0])
    with contextlib.closing(theirs), contextlib.closing(ours):
        theirs.open(), ours.open()
        assert theirs.acquire(0) and not ours.acquire(0)
        for _ in range(10):  # it beats, if slowly
            now[0] += leases.PATIENCE_S - 1
            theirs.beat()
            assert not ours.acquire(0)
        assert ours.is_held(0)
        now[0] += leases.PATIENCE_S
        assert ours.acquire(0)


def test_where_nothing_can_be_linked_parts_are_still_made_and_none_is_replaced(
    tmp_path, monkeypatch
):
    def refuse(*arguments, **options):
        raise OSError(95, os.strerror(95))

    process = Process(tmp_path, 0, "here", lambda: 0.0)
    monkeypatch.setattr(os, "link", refuse)
    for index in range(PARTS):
        assert process.writer.claim(index)
        process.writer.write(index, rows(index))
    late = Process(tmp_path, 1, "there", lambda: 0.0)
    before = (tmp_path / part_name(0)).read_bytes()
    late.writer.write(0, rows(0, maker=1))
    assert (tmp_path / part_name(0)).read_bytes() == before
    assert process.writer.finish(lambda shards: {}) is not None
    late.held.close(), process.held.close()


def test_a_process_begins_in_a_folder_that_another_removed_while_it_was_empty(tmp_path):
    held = Leases(tmp_path / "gone" / "scores")
    held.open()
    assert held.acquire(0)
    held.close()

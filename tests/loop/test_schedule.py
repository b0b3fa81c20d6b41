"""The protocol by which processes follow a run, as a state machine with a clock of its own."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rlvr_cli.config import RunOptions
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.loop import published, schedule
from rlvr_cli.loop.schedule import Schedule
from rlvr_cli.models.policy import Policy
from rlvr_cli.storage import leases, run_folders, schema, writer
from rlvr_cli.storage.leases import Leases
from rlvr_cli.storage.part_writer import PartWriter
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import MANIFEST, Shards

STEPS, PARTS, SAVE_EVERY = 6, 2, 2
SAMPLERS = st.integers(0, 2)


def update(run: Path, step: int) -> Path:
    return run / "steps" / run_folders.name(step) / "update"


def plan(rollouts: Path, step: int, sampled: int) -> Plan:
    """What samples a step from the policy of another; its rows are of a kind with few columns."""
    where = os.path.relpath(update(rollouts.parents[2], sampled), rollouts) if sampled else "first"
    params = {"step": step, "policy": f"identity {sampled}"}
    return Plan("scores", "score", params, {}, PARTS, paths={"policy": where})


def rows(step: int, sampled: int, index: int) -> pa.Table:
    columns = {
        "prompt_id": [f"step {step}, part {index}"], "sample_index": [sampled], "reward": [1.0],
        "correct": [True], "extracted": [None], "reason": [None], "status": ["ok"],
    }  # fmt: skip
    return pa.table(columns, schema.schema("scores"))


class Sampler:
    """A process at the parts of one step."""

    def __init__(self, rollouts: Path, step: int, sampled: int, clock) -> None:
        self.step, self.sampled = step, sampled
        self.held = Leases(rollouts, clock=clock, machine="elsewhere", pulse=False)
        self.parts = PartWriter(rollouts, plan(rollouts, step, sampled), self.held)
        self.held.open()
        self.parts.begin()
        self.parts.refresh()


class Following(RuleBasedStateMachine):
    """Samplers that look, open, make, stall and die; a trainer that goes on, and goes back."""

    @initialize(ahead=st.integers(0, 3))
    def start(self, ahead: int) -> None:
        self.run = Path(tempfile.mkdtemp())
        self.schedule, self.now = Schedule(self.run, STEPS, ahead), 0.0
        self.samplers: dict[int, Sampler] = {}
        self.looked: dict[int, int] = {}
        self.settled: dict[int, int] = {}  # the policy of each step that has a part
        self.trained, self.lineage, self.unpruned = 0, 0, 1

    def teardown(self) -> None:
        if hasattr(self, "run"):
            self.complete()
            shutil.rmtree(self.run)

    @rule(number=SAMPLERS)
    def look(self, number: int) -> None:
        """What a process saw may be old when it acts on it."""
        self.looked[number] = published.Newest(self.run).step()

    @rule(number=SAMPLERS)
    def open(self, number: int) -> None:
        if number in self.samplers or number not in self.looked:
            return
        for step in range(1, STEPS + 1):
            out, newest = self.schedule.rollouts(step), self.looked[number]
            if (out / MANIFEST).exists():
                continue
            sampled = self.schedule.version(step, newest)
            if sampled is None:
                return
            assert published.is_there(self.run, sampled), "a policy that a step names is gone"
            writer.begin(out, plan(out, step, sampled))
            sampled = schedule.version(out)
            self.samplers[number] = Sampler(out, step, sampled, lambda: self.now)
            return

    @rule(number=SAMPLERS, index=st.integers(0, PARTS - 1))
    def make(self, number: int, index: int) -> None:
        if (one := self.samplers.get(number)) and one.parts.claim(index):
            one.parts.write(index, rows(one.step, one.sampled, index))
            assert self.settled.setdefault(one.step, one.sampled) == one.sampled

    @rule(number=SAMPLERS)
    def finish(self, number: int) -> None:
        if one := self.samplers.get(number):
            one.parts.refresh()
            if len(one.parts.done) == PARTS and one.parts.finish(lambda shards: {}):
                one.held.close()
                del self.samplers[number]

    @rule(number=SAMPLERS)
    def die(self, number: int) -> None:
        if one := self.samplers.pop(number, None):
            os.close(one.held._descriptor)

    @rule(beating=st.sets(SAMPLERS))
    def time_passes(self, beating: set[int]) -> None:
        """So much that whoever does not beat meanwhile is given up; it may come back."""
        for _ in range(3):
            self.now += leases.PATIENCE_S / 2
            for number in beating & self.samplers.keys():
                self.samplers[number].held.beat()
            for one in self.samplers.values():  # as one that waits looks again
                for index in range(PARTS):
                    one.held.is_held(index)

    @precondition(lambda self: self.trained < STEPS)
    @rule()
    def train(self) -> None:
        step = self.trained + 1
        out = self.schedule.rollouts(step)
        if not (out / MANIFEST).exists():
            return
        stale, sampled = self.schedule.staleness(step), schedule.version(out)
        assert stale <= self.schedule.ahead
        table = Shards.open(out).table()
        assert table["prompt_id"].to_pylist() == [f"step {step}, part {i}" for i in range(PARTS)]
        assert set(table["sample_index"].to_pylist()) == {sampled}
        update(self.run, step).mkdir(parents=True, exist_ok=True)
        self.trained = step
        if step < STEPS:
            self.publish(step)

    def publish(self, step: int) -> None:
        def write(folder: Path) -> None:
            (folder / "model.safetensors").write_text(f"weights {step} of {self.lineage}")

        policy = Policy(update(self.run, step), str(update(self.run, step)), f"identity {step}")
        before = published.read(self.run, step)
        published.publish(write, self.run, step, policy)
        after = published.read(self.run, step)
        assert after and before in (None, after), "what was published is another"
        kept = published.Newest(self.run).step() - self.schedule.ahead
        published.prune(self.run, range(self.unpruned, kept))
        self.unpruned = max(self.unpruned, kept)

    @rule(differs=st.booleans())
    def trainer_dies(self, differs: bool) -> None:
        """It goes on from its last checkpoint; what it makes again may come out otherwise."""
        self.trained -= self.trained % SAVE_EVERY
        self.lineage += differs
        self.unpruned = 1

    @invariant()
    def a_step_that_is_not_sampled_yet_has_its_policy(self) -> None:
        for step in range(1, STEPS + 1) if hasattr(self, "run") else ():
            out = self.schedule.rollouts(step)
            sampled = schedule.version(out)
            if sampled is not None and not (out / MANIFEST).exists():
                published.require_intact(self.run, sampled)
                assert step - 1 - sampled <= self.schedule.ahead

    def complete(self) -> None:
        """One sampler and the trainer end the run, whatever became of the others."""
        for number in list(self.samplers):
            self.die(number)
        while self.trained < STEPS:
            before = self.trained
            for _ in range(4):
                self.look(0)
                self.open(0)
                self.time_passes({0})
                for index in range(PARTS):
                    self.make(0, index)
                self.finish(0)
            self.train()
            assert self.trained > before, "nobody goes on"


TestFollowing = Following.TestCase
TestFollowing.settings = settings(max_examples=15, stateful_step_count=40, deadline=None)


def begun(run: Path, sampled: dict[int, int]) -> Path:
    for step, version in sampled.items():
        out = Schedule(run, 9, 9).rollouts(step)
        writer.begin(out, plan(out, step, version))
    return run


def test_a_schedule_is_read_from_the_plans_of_another_run(tmp_path):
    run = begun(tmp_path / "other", {1: 0, 2: 0, 3: 1})
    options = RunOptions(schedule_of=str(run), steps=3, ahead=1)
    assert schedule.given(options) == {1: 0, 2: 0, 3: 1}
    with pytest.raises(UsageError, match="no rollouts of step 4") as refused:
        schedule.given(RunOptions(schedule_of=str(run), steps=4, ahead=1))
    assert refused.value.hint == "use --steps 3"
    with pytest.raises(UsageError, match="were sampled 1 update ahead") as refused:
        schedule.given(RunOptions(schedule_of=str(run), steps=3))
    assert refused.value.hint == "use --ahead 1"


def test_a_run_that_starts_from_a_step_of_another_run_has_no_policy_of_its_own_yet(tmp_path):
    out = Schedule(tmp_path / "run", 9, 9).rollouts(1)
    where = os.path.relpath(update(tmp_path / "other", 3) / "_checkpoint", out)
    writer.begin(out, Plan("scores", "score", {}, {}, 1, paths={"policy": where}))
    assert schedule.version(out) == 0


def test_a_step_that_was_sampled_too_far_ahead_is_not_trained(tmp_path):
    run = begun(tmp_path, {3: 0})
    with pytest.raises(DataError, match="from the policy of step 0, 2 updates before"):
        Schedule(run, 9, 1).staleness(3)
    assert Schedule(run, 9, 2).staleness(3) == 2


def publish(run: Path, text: str) -> Path:
    """Publishes a policy of so much text after step 1; where its weights are."""

    def write(folder: Path) -> None:
        (folder / "model.safetensors").write_text(text)
        (folder / "config.json").write_text(json.dumps({}))

    published.publish(write, run, 1, Policy(run, str(update(run, 1)), "identity"))
    return published.policy(run, 1).path / "model.safetensors"


def test_a_published_policy_that_was_changed_is_refused_and_mended(tmp_path):
    weights = publish(tmp_path, "weights")
    published.require_intact(tmp_path, 1)
    policy = published.policy(tmp_path, 1)
    assert (policy.digest, policy.name) == ("identity", str(update(tmp_path, 1)))
    weights.write_text("Weights")
    with pytest.raises(DataError, match="not as it was written"):
        published.require_intact(tmp_path, 1)
    publish(tmp_path, "weights")
    published.require_intact(tmp_path, 1)


def test_a_policy_that_comes_out_otherwise_leaves_the_one_that_was_published(tmp_path, capsys):
    publish(tmp_path, "weights")
    assert publish(tmp_path, "others").read_text() == "weights"
    assert "step 1 came out with other weights" in capsys.readouterr().err
    assert sorted(p.name for p in published.folder(tmp_path, 1).iterdir()) == [
        "_published.json", "_weights",
    ]  # fmt: skip

"""Processes that follow a run: they find their work by looking at its directory, and wait for it.

Samplers and scorers may come and go at any time, on any host that sees the directory; the trainer
is one job. None of them knows of the others: a step is sampled when the schedule allows it, scored
when its rollouts are complete, and trained on when its scores are.
"""

import contextlib
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlvr_cli import run_config
from rlvr_cli.algorithms import objective as objectives
from rlvr_cli.config import RunConfig
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.loop import input_places, preflight, published, schedule, stored_config, waiting
from rlvr_cli.loop.reader import Reader
from rlvr_cli.loop.run_directory import RunDirectory
from rlvr_cli.loop.sampler import Sampler
from rlvr_cli.loop.timer import Timer
from rlvr_cli.models import policy as policies, prompt_options, questions
from rlvr_cli.models.policy import Policy
from rlvr_cli.stages import rollout, score, task_prompts
from rlvr_cli.stages.selection import Selection
from rlvr_cli.storage import atomic, moved, records, run_folders
from rlvr_cli.storage.begun import begun_parents
from rlvr_cli.storage.images import Images
from rlvr_cli.storage.shards import MANIFEST, Shards
from rlvr_cli.storage.share import Share
from rlvr_cli.terminal import console

LEAVES_REST = Share(waits=False)  # a part that another process holds is that one's


@dataclass(frozen=True)
class Followed:
    """A run that another process trains: its configuration and its inputs."""

    path: Path
    config: RunConfig
    schedule: schedule.Schedule
    prompts: Shards
    initial_policy: Policy
    decided: dict[str, Any]

    def of(self, step: int, stage: str) -> Path:
        return self.path / "steps" / run_folders.name(step) / stage

    def is_complete(self, step: int, stage: str) -> bool:
        return (self.of(step, stage) / MANIFEST).exists()

    @property
    def next_step(self) -> int:
        """The first step that is not trained."""
        return max(run_folders.complete(self.path, "steps", "update"), default=0) + 1


def join(path: Path, name: str) -> Followed:
    """The run at `path`, once its trainer has begun it."""
    how = f"`rlvr train-step --follow {shlex.quote(str(path))} --config FILE` begins it"
    if path.is_file() or (path / MANIFEST).exists():  # which no trainer will make a run
        raise DataError(f"`{path}` is no run directory", f"name one: {how}")
    waiting.until(
        path, lambda: run_folders.kept(path) is not None, f"the run `{path}`: {how}",
        patience_s=0.3,
    )  # fmt: skip
    kept = run_folders.kept(path)
    begun = RunDirectory(path).begun()
    if kept is None or begun is None:
        raise DataError(f"`{path}` was removed while it was read", f"begin it again: {how}")
    config = stored_config.resumed(run_config.load([], {}, stored=begun), begun)
    config = replace(config, rollout=prompt_options.resolved(config.rollout))
    decoupled = objectives.build(config.train.algo).decoupled
    preflight.check_following(config, decoupled=decoupled)
    input_places.require(path, config, follows=True)
    train, inputs = config.train, kept[1]
    prompts = Shards.open(task_prompts.directory(train.prompts) or path / "prompts" / "train")
    policy = policies.resolve(train.model)
    for what, is_same in (
        ("prompts", prompts.digest == inputs.get("prompts")),
        ("policy", policy.digest == inputs.get("policy")),
    ):
        if not is_same:
            raise DataError(
                f"the {what} that this process reads are not those of `{path}`",
                "start it where the run was begun, or bring them back",
            )
    moved.remember(prompts.digest, prompts.path)
    planned = schedule.Schedule(path, train.steps, train.ahead, schedule.given(train))
    console.say(f"{name}: following `{path}`")
    return Followed(path, config, planned, prompts, policy, stored_config.decided(kept))


def _require_as_joined(run: Followed) -> None:
    """An error if a run was moved or removed, or begun again with other options."""
    if not run_folders.is_run(run.path):
        raise DataError(f"`{run.path}` was moved or removed", "follow it where it is now")
    kept = run_folders.kept(run.path)
    now = stored_config.decided(kept) if kept else {}
    if any(now[name] != value for name, value in run.decided.items() if name in now):
        raise DataError(
            f"`{run.path}` was begun again, with other options", "run the same command again"
        )


def sample(path: Path, *, ahead: int | None = None) -> None:
    """Samples the steps of a run as they may be opened, until all are sampled."""
    with _until_stopped():
        run = join(path, "rollout")
        allowed = run.config.train.ahead
        if ahead is not None and ahead > allowed:
            raise UsageError(
                f"--ahead is {ahead}, and `{path}` was begun with --ahead {allowed}",
                "leave it out",
            )
        if ahead is not None:
            run = replace(run, schedule=replace(run.schedule, ahead=ahead))
        _work(run, _Sampling(run).make, "rollouts", "a policy from the trainer")


def verify(path: Path, *, workers: int | None = None, unsafe: bool = False) -> None:
    """Scores the rollouts of a run as they come, until all are scored."""
    with _until_stopped():
        run = join(path, "score")
        train = run.config.train
        kind = score.sandbox(unsafe=unsafe) if train.allow_code_execution else None
        with score.scorer(workers=workers, sandbox=kind) as scorer:
            verification = score.Verification(
                train.verifier or None, train.answer_from, train.allow_code_execution, scorer,
                console.say,
            )  # fmt: skip
            _work(run, _scoring(run, verification), "scores", "rollouts")


@contextlib.contextmanager
def _until_stopped() -> Iterator[None]:
    with moved.forgotten():
        try:
            yield
        except waiting.Stopped as stopped:
            console.say(str(stopped))


def _work(run: Followed, make: Callable[[int], bool | None], stage: str, what: str) -> None:
    """Calls `make` for each step in order until a stage of all steps is complete.

    `make` returns whether it did something, or None if neither that step nor a later one can be
    made yet. Each process checks complete steps once, too, so that damage is repaired.
    """
    wait, checked, first = waiting.Waiting(), set[int](), run.next_step
    while True:
        _require_as_joined(run)
        while first in checked and run.is_complete(first, stage):
            first += 1
        did = False
        for step in range(first, run.config.train.steps + 1):
            waiting.raise_if_stopped(run.path)
            if step in checked and run.is_complete(step, stage):
                continue
            if (worked := make(step)) is None:
                break
            did = did or worked
            checked |= {step} if run.is_complete(step, stage) else set()
        if first > run.config.train.steps:
            return
        if did:
            wait.reset()
        else:
            wait.wait(f"{what} (step {first} of {run.config.train.steps})")


def is_intact(path: Path) -> bool:
    """Whether a directory is complete, and all its parts are as they were written."""
    try:
        parts = Shards.open(path).manifest["parts"]
    except DataError:
        return False
    return all(records.is_intact(path, part) for part in parts)


class Others:
    """The processes that sample and score for a trainer.

    `begin` starts them once the run's configuration, which they read, is stored; `look` raises an
    error if one of them has failed.
    """

    def __init__(
        self,
        run: Path,
        begin: Callable[[], None] = lambda: None,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        self._run, self.begin, self._look = run, begin, look

    def wait_for(self, out: Path, what: str, parent: Shards | None = None) -> Shards:
        """A directory once it is complete, and made from the `parent`."""

        def is_complete() -> bool:
            if not (out / MANIFEST).exists():
                return False
            return not parent or begun_parents(out).get(parent.kind) == [parent.digest]

        stage = "score" if parent else "rollout"
        how = f"{what}, which `rlvr {stage} --follow {shlex.quote(str(self._run))}` makes"
        waiting.until(self._run, is_complete, how, self._look)
        return Shards.open(out)


class _Sampling:
    """Samples steps from the published policies that the schedule names."""

    def __init__(self, run: Followed) -> None:
        self._run, self._newest = run, published.Newest(run.path)
        self._reader, self._intact = Reader(run.initial_policy), set[int]()
        self._sampler = Sampler(
            run.config, self._reader, None, run.prompts,
            timer=Timer(), verification=score.Verification(),
        )  # fmt: skip
        preflight.require_memory_to_sample(
            run.config, run.initial_policy, questions.parts_with_raw(run.prompts),
            Images.of(run.prompts),
        )  # fmt: skip

    def make(self, step: int) -> bool | None:
        """Opens a step if the schedule allows it, and makes the parts that nobody else makes."""
        run, out = self._run, self._run.of(step, "rollouts")
        newest = self._newest.step()
        planned = run.schedule.version(step, newest)
        if planned is None:
            return None
        if planned > newest:
            return False  # the trainer publishes it again
        if not run.is_complete(step, "rollouts") and not self._is_intact(planned, newest):
            if planned == newest:
                return None  # of a run that goes on after its last step, or there is a newer one
            console.say(
                f"`{out}` was begun with the policy of step {planned}, whose weights are gone: it "
                f"is begun again with that of step {newest}"
            )
            atomic.remove(out)
            return True
        options, train = run.config.rollout, run.config.train
        selection = Selection(train.seed, step, train.prompts_per_step)
        rollout.begin(run.prompts, out, self._policy(planned), options, selection)
        settled = run.schedule.version(step, newest)
        assert settled is not None, "it is begun"
        self._reader.aim(self._policy(settled))
        try:
            rollouts = self._sampler.sample(run.prompts, out, options, selection, LEAVES_REST)
        except DataError:
            if not run.is_complete(step, "rollouts"):
                raise
            if not is_intact(out):  # and it cannot be repaired
                console.say(f"`{out}` was damaged: it is begun again with the newest policy")
                atomic.remove(out)
            return False  # otherwise others made it, and the weights were removed meanwhile
        if rollouts is not None:
            console.say(f"rollout: step {step} is sampled, from the policy of step {settled}")
        return rollouts is not None

    def _is_intact(self, step: int, newest: int) -> bool:
        """Whether a policy's weights are as they were published; they are read once.

        An error if those of the newest are damaged: they may be gone for a while only.
        """
        if step in self._intact and published.is_there(self._run.path, step):
            return True
        try:
            published.require_intact(self._run.path, step)
        except DataError:
            if step == newest and published.is_there(self._run.path, step):
                raise
            return False
        self._intact.add(step)
        return True

    def _policy(self, step: int) -> Policy:
        if not step:
            return self._run.initial_policy
        return published.policy(self._run.path, step)


def _scoring(run: Followed, verification: score.Verification) -> Callable[[int], bool | None]:
    """A function that scores a step once its rollouts are complete."""
    limit = run.config.train.max_error_rate

    def make(step: int) -> bool | None:
        if not run.is_complete(step, "rollouts"):
            return None
        out = run.of(step, "scores")
        rollouts = Shards.open(run.of(step, "rollouts"), "rollouts")
        score.discard_failed(out, limit)
        if begun_parents(out).get("rollouts", [rollouts.digest]) != [rollouts.digest]:
            atomic.remove(out)
        scores = verification.run(rollouts, out, LEAVES_REST)
        if scores is not None:
            console.say(f"score: step {step} is scored, mean reward {scores.summary['reward']:.3g}")
            score.check_error_rate(scores, limit)
        return scores is not None

    return make

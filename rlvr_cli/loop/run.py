"""The loop of `train`: the same stages as the commands, over one run directory.

    step = rollout -> score -> (logprob) -> advantage -> train_step -> (memory_step) -> evaluate

Every process of a run does each step. Stages that take a share divide their parts among the
processes; advantages are the main process' work; the update is everyone's. A run that `follows`
has its rollouts and scores from processes of their own (following.py), and publishes its policy.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlvr_cli.algorithms.objective import COMPLETION_KL, Objective
from rlvr_cli.config import RolloutOptions, RunConfig
from rlvr_cli.errors import UserError
from rlvr_cli.evaluation import pass_at_k
from rlvr_cli.loop import following, preflight, pruning, published
from rlvr_cli.loop.following import Others
from rlvr_cli.loop.memory_state import MemoryState
from rlvr_cli.loop.policy_state import PolicyState
from rlvr_cli.loop.run_directory import RunDirectory
from rlvr_cli.loop.sampler import Sampler
from rlvr_cli.loop.schedule import Schedule
from rlvr_cli.loop.timer import Timer
from rlvr_cli.loop.waiting import Stopped
from rlvr_cli.runtime import distributed
from rlvr_cli.runtime.distributed import World
from rlvr_cli.stages import (
    advantage,
    common,
    logprob,
    room as rooms,
    score,
    steps,
    train_step,
)
from rlvr_cli.stages.room import Room
from rlvr_cli.stages.score import Verification
from rlvr_cli.stages.selection import Selection
from rlvr_cli.storage import atomic
from rlvr_cli.storage.atomic import Syncing
from rlvr_cli.storage.begun import begun_parents, begun_with
from rlvr_cli.storage.shards import Shards
from rlvr_cli.storage.share import Share
from rlvr_cli.terminal import console

Record = dict[str, Any]


@dataclass
class Run:
    """A run directory, its prompts, and the models in memory that its stages share.

    `last_step` is the step of the policy: that of a complete checkpoint, or 0.
    """

    config: RunConfig
    directory: RunDirectory
    world: World
    objective: Objective
    sampling: RolloutOptions
    is_pruned: bool = field(default=False, init=False)  # no checkpoint was written since
    prompts: Shards
    heldout: Shards | None
    policy: PolicyState
    memory: MemoryState | None
    sampler: Sampler
    verification: Verification
    timer: Timer
    last_step: int
    room: Room
    syncing: Syncing
    schedule: Schedule
    others: Others | None  # that sample and score; None where this does
    _unpruned: int = field(default=1, init=False)  # the first step that may have published weights

    def close(self) -> None:
        """Ends the processes of verifiers, and says what their services took.

        Where the run fails, a checkpoint that the disk did not take goes without another word.
        """
        with contextlib.suppress(UserError):
            self.syncing.wait()
        if scorer := self.verification.scorer:
            for line in scorer.remarks():
                console.remark("train", line)
            scorer.close()

    def steps(self, last_seconds: dict[str, float]) -> Iterator[Record]:
        """Resumes after the last step, which took so many seconds; one record a step.

        The first is for where it starts.
        """
        self._publish(self.last_step)
        yield self.finish_step(self.last_step, last_seconds) | {"seconds": {}}
        for step in range(self.last_step + 1, self.config.train.steps + 1):
            try:
                seconds = self.train_on(step)
            except Stopped as stopped:
                return console.remark("train", str(stopped))
            yield self.finish_step(step, seconds)

    def train_on(self, step: int) -> dict[str, float]:
        """Rollout, score, advantage and update of a step; the seconds that each took."""
        here, saves = self.directory.of("steps", step), self._saves(step)
        timer, policy = self.timer, self.policy
        timer.start()
        with timer("rollout"):
            rollouts = self._rollouts(step)
        is_stale = self._is_stale(step, rollouts)
        with timer("score"):
            scores = self._scores(rollouts, step)
        logprobs = None
        if columns := logprob.read_columns(self.objective.needs):
            with timer("logprob"):
                logprobs = self._logprobs(rollouts, here / "logprobs", columns)
        with timer("advantage"):
            advantages = self._advantages(scores, here / "advantages", logprobs, is_stale=is_stale)
        self._prune(wait=True)  # room for the next checkpoint; one at a time is on its way to disk
        if saves and self.world.is_main_process:
            self.room.require(self.directory.path, step)
        with timer("train_step"):
            update = train_step.run(
                advantages, here / "update", policy.policy, self.config.train_step,
                seed=self.config.train.seed, logprobs=logprobs, allow_empty=True, save=saves,
                engine=lambda: policy.trainer, syncing=self.syncing, off_policy=is_stale,
            )  # fmt: skip
            policy.policy = steps.checkpoint_after(update, policy.policy, save=saves)
        self._publish(step)
        self.is_pruned = self.is_pruned and not saves
        if self.memory:
            with timer("memory_step"):
                self.memory.update(rollouts, here / "memory", save=saves, syncing=self.syncing)
        return timer.seconds

    def _rollouts(self, step: int) -> Shards:
        """Those of a step, and of all others that the policy of this moment samples."""
        out = self.schedule.rollouts(step)
        if self.others:
            return self.others.wait_for(out, f"rollouts of step {step}")
        due = self._due(step) if self.world.is_main_process else []
        for later in distributed.broadcast(due):
            rollouts = self.schedule.rollouts(later)
            self.sampler.run(self.prompts, rollouts, self.sampling, self._prompts_of(later))
        return Shards.open(out, "rollouts")

    def _due(self, step: int) -> list[int]:
        """The steps to sample before a step is trained; its own rollouts may be lost or damaged."""
        due, out = list(self.schedule.due(step - 1)), self.schedule.rollouts(step)
        if step not in due and not following.is_intact(out):
            console.remark("train", f"`{out}` was cut off or damaged: this policy samples it")
            atomic.remove(out)
            due.insert(0, step)
        return due

    def _scores(self, rollouts: Shards, step: int) -> Shards:
        out = self.directory.of("steps", step) / "scores"
        if not self.others:
            return self._score(rollouts, out)
        scores = self.others.wait_for(out, f"scores of step {step}", rollouts)
        score.check_error_rate(scores, self.config.train.max_error_rate)
        return scores

    def _is_stale(self, step: int, rollouts: Shards) -> bool:
        """Whether the policy that sampled a step is another than the one it trains."""
        is_in_turn = not self.others and not self.config.train.ahead
        is_other = rollouts.params["policy"] != self.policy.policy.digest
        return self.schedule.staleness(step) != 0 or (is_other and not is_in_turn)

    def _publish(self, step: int) -> None:
        """Publishes the policy after a step, for the steps that are sampled from it."""
        if not self.others or not step:
            return
        run, trainer, is_last = self.directory.path, self.policy.trainer, self._is_last(step)
        if not is_last:
            with self.timer("publish"):
                if not self.world.is_main_process:  # with the main one, which writes
                    return trainer.publish(published.folder(run, step))
                published.publish(trainer.publish, run, step, self.policy.policy)
        if self.world.is_main_process:
            kept = step if is_last else published.Newest(run).step() - self.config.train.ahead
            published.prune(run, range(self._unpruned, kept))
            self._unpruned = max(self._unpruned, kept)

    def _is_last(self, step: int) -> bool:
        return step == self.config.train.steps

    def evaluate(self, step: int) -> None:
        """Samples held-out completions of the policy at a step, scored and with log-probs."""
        assert self.heldout is not None, "evaluations need held-out prompts"
        here, policy = self.directory.of("eval", step), self.policy
        sampling = preflight.sampling_of_evaluations(self.config)
        rollouts = self.sampler.run(self.heldout, here / "rollouts", sampling, self._prompts_of(0))
        self._score(rollouts, here / "scores")
        self._discard_stale(here / "logprobs", rollouts)
        logprobs = logprob.run(
            rollouts, here / "logprobs", columns=pass_at_k.TOKEN_COLUMNS, policy=policy.policy,
            reference=policy.initial_policy, load=policy.load_or_reuse, share=self._share,
            micro_batch_tokens=self.config.train_step.micro_batch_tokens,
        )  # fmt: skip
        self._complete(logprobs, here / "logprobs")

    def score_evaluation(self, step: int) -> None:
        """Scores the completions of an evaluation, whose policy may be gone."""
        here = self.directory.of("eval", step)
        self._score(Shards.open(here / "rollouts", "rollouts"), here / "scores")

    def finish_step(self, step: int, seconds: dict[str, float]) -> Record:
        """Evaluates if it is due, writes the metrics line, removes old checkpoints."""
        record = self.directory.record(step, seconds)
        is_due = self._is_evaluated(step) or bool(
            self.config.train.eval_every and step == self.config.train.steps
        )
        if is_due:
            self.evaluate(step)
        if not self.world.is_main_process:
            return record
        record |= self.directory.evaluation(step) if self.directory.is_evaluated(step) else {}
        self.directory.log(record)
        self._prune(wait=step == self.config.train.steps)
        return record

    def _prune(self, *, wait: bool) -> None:
        """Removes old checkpoints; one more stays while the newest is on its way to disk.

        It looks at every step of the run: so only where there is a checkpoint more than before.
        """
        if not self.world.is_main_process or self.is_pruned:
            return
        if wait:
            self.syncing.wait()
        train = self.config.train
        pruning.prune(self.directory, train.keep + self.syncing.is_pending, train.keep_weights)
        self.is_pruned = wait

    def _score(self, rollouts: Shards, out: Path) -> Shards:
        limit = self.config.train.max_error_rate
        if self.world.is_main_process:
            score.discard_failed(out, limit)
        self._discard_stale(out, rollouts)
        scores = self.verification.run(rollouts, out, self._share)
        complete = self._complete(scores, out)
        score.check_error_rate(complete, limit)
        return complete

    def _discard_stale(self, out: Path, parent: Shards) -> None:
        """Removes a directory whose parent was damaged and came out different when written again.

        That may happen on a GPU; every process calls this.
        """
        is_stale = self.world.is_main_process and begun_parents(out).get(
            parent.kind, [parent.digest]
        ) != [parent.digest]
        if is_stale:
            atomic.remove(out)
        distributed.barrier()

    def _logprobs(self, rollouts: Shards, out: Path, columns: tuple[str, ...]) -> Shards:
        """What the objective reads of the reference policy, and of the policy before its update."""
        self._discard_stale(out, rollouts)
        policy = self.policy.policy if logprob.stored_columns(self.objective.needs) else None
        logprobs = logprob.run(
            rollouts, out, columns=columns, policy=policy, reference=self.policy.initial_policy,
            ref_top_k=self.objective.top_k, load=self.policy.load_or_reuse, share=self._share,
            micro_batch_tokens=self.config.train_step.micro_batch_tokens,
        )  # fmt: skip
        return self._complete(logprobs, out)

    def _advantages(
        self, scores: Shards, out: Path, logprobs: Shards | None, *, is_stale: bool
    ) -> Shards:
        self._discard_stale(out, scores)
        algo = preflight.corrected(self.config) if is_stale else self.config.train.algo
        advantages = None
        if self.world.is_main_process:
            needs_them = COMPLETION_KL in self.objective.needs
            where = logprobs.path if logprobs and needs_them else None
            advantages = advantage.run(scores, out, algo=algo, logprobs=where)
        return self._complete(advantages, out)

    def _complete(self, shards: Shards | None, out: Path) -> Shards:
        """The directory that all processes wrote, once the last of them has finished."""
        complete = common.together(shards, out)
        assert complete is not None, "every process wrote its share"
        return complete

    @property
    def _share(self) -> Share:
        return Share.of_process(self.world.rank, self.world.size)

    def _saves(self, step: int) -> bool:
        """Whether a step ends with a checkpoint; adapters are small and are always written.

        A step without one, after which the next was begun, stays so: that one names its policy.
        """
        train, here = self.config.train, self.directory.of("steps", step)
        later = range(step + 1, min(step + 1 + train.ahead, train.steps) + 1)
        named = {begun_with(self.schedule.rollouts(after)).get("policy") for after in later}
        if steps.unsaved(here / "update", "update") in named - {None}:
            return False
        return rooms.saves(train, [step], adapters=self.config.train_step.lora_rank > 0) > 0

    def _is_evaluated(self, step: int) -> bool:
        every = self.config.train.eval_every
        return every > 0 and step % every == 0

    def _prompts_of(self, step: int) -> Selection:
        """The prompts of a step, or all held-out ones at step 0."""
        size = self.config.train.prompts_per_step if step else None
        return Selection(self.config.train.seed, step, size)

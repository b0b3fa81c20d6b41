"""The loop of `train`: the same stages as the commands, over one run directory."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rlvr_cli import registry
from rlvr_cli.algorithms import objective
from rlvr_cli.config import RunConfig
from rlvr_cli.evaluation import pass_at_k
from rlvr_cli.loop import preflight
from rlvr_cli.loop.memory_state import MemoryState
from rlvr_cli.loop.policy_state import PolicyState
from rlvr_cli.loop.run_directory import RunDirectory
from rlvr_cli.loop.sampler import Sampler
from rlvr_cli.loop.timer import Clock
from rlvr_cli.models import memory_model as remembering, policy as policies
from rlvr_cli.runtime import distributed
from rlvr_cli.stages import advantage, common, logprob, prompts, rollout, score, steps, train_step
from rlvr_cli.storage import atomic
from rlvr_cli.storage.shards import Shards, Share
from rlvr_cli.verification.scoring.scorer import Scorer

BUILTIN_TASK = "expression"


class Run:
    """A run directory, and the policy in memory that its stages share."""

    def __init__(self, path: Path, config: RunConfig) -> None:
        self.config = config
        self.goal = objective.build(config.train.algo)
        self._trained: PolicyState
        self._sampler: Sampler
        self._memory: MemoryState | None = None
        self._scorer: Scorer | None = None
        self._clock = Clock()
        self._sampling = remembering.sampling(
            config.rollout, config.train.algo, decoupled=self.goal.decoupled
        )
        self.folder = RunDirectory(path, with_memory=self._sampling.is_decoupled)
        self._world = (
            distributed.start() if distributed.current().size > 1 else distributed.current()
        )
        rollout.check(self._sampling, self._selection(1))
        train_step.check_sampling(vars(config.rollout), "a run would sample")
        advantage.check_length(self.goal, config.rollout.max_new_tokens)

    def train(self) -> Iterator[dict[str, Any]]:
        """Runs or goes on with the loop; one record a step, the first for where it starts.

        Where there are several processes each of them runs this, and the leading one writes.
        """
        self.check()
        atomic.make_folder(self.folder.path)
        with contextlib.ExitStack() as stack:
            stack.callback(self._dismiss)
            if self._world.is_main_process:
                stack.enter_context(self.folder.claimed(self.config))
                self._prepare()
            distributed.barrier()
            if not self._world.is_main_process:
                self._prepare()
            last, seconds = distributed.broadcast(
                self._reached() if self._world.is_main_process else None
            )
            self._load(last)
            yield self._settle(last, seconds) | {"seconds": {}}
            for step in range(last + 1, self.config.train.steps + 1):
                yield self._settle(step, self._step(step))

    def check(self) -> None:
        """Refuses a policy or prompts that are not there, without making anything."""
        config = self.config
        self._trained = PolicyState(policies.resolve(config.train.model), config)
        train_step.check(config.train_step, self.goal, self._trained.initial_policy)
        decoupled = self._sampling.is_decoupled
        preflight.check_processes(config, self._world.size, decoupled=decoupled)
        preflight.check_prompts(config)

    def _step(self, step: int) -> dict[str, float]:
        """Rollout, score, advantage and update; the seconds that each took."""
        config, here = self.config, self.folder.of("steps", step)
        clock, trained = self._clock, self._trained
        clock.start()
        rollouts = clock(
            "rollout", self._sampler.run, self.prompts, here / "rollouts", self._sampling,
            self._selection(step),
        )  # fmt: skip
        scores = clock("score", self._divided, self._score, rollouts, here / "scores")
        score.check_error_rate(scores, config.train.max_error_rate)
        logprobs = None
        if columns := logprob.reference_columns(self.goal.needs):
            logprobs = clock(
                "logprob", self._divided, logprob.run, rollouts, here / "logprobs", columns=columns,
                reference=trained.initial_policy, ref_top_k=self.goal.top_k,
                load=trained.load_or_reuse,
                micro_batch_tokens=config.train_step.micro_batch_tokens,
            )  # fmt: skip
        advantages = clock(
            "advantage", self._once, advantage.run, scores, here / "advantages",
            algo=config.train.algo,
        )  # fmt: skip
        saves = self._saves(step)
        update = clock(
            "train_step", train_step.run, advantages, here / "update", trained.policy,
            config.train_step, seed=config.train.seed, logprobs=logprobs, allow_empty=True,
            save=saves, engine=lambda: trained.trainer,
        )  # fmt: skip
        trained.policy = steps.checkpoint_after(update, trained.policy, save=saves)
        if self._memory:
            clock("memory_step", self._memory.update, rollouts, here / "memory", save=saves)
        return clock.seconds

    def _evaluate(self, step: int) -> Path:
        """Where held-out completions of the policy at a step are, scored and with log-probs."""
        config, here, trained = self.config, self.folder.of("eval", step), self._trained
        options = dataclasses.replace(
            config.rollout, num_generations=config.train.eval_num_generations, max_draws=1,
            memory_model="", dlc_min_prob=0.0,
        )  # fmt: skip
        rollouts = self._sampler.run(
            self.heldout, here / "rollouts", options, self._selection(step=0)
        )
        scores = self._divided(self._score, rollouts, here / "scores")
        score.check_error_rate(scores, config.train.max_error_rate)
        self._divided(
            logprob.run, rollouts, here / "logprobs", columns=pass_at_k.TOKEN_COLUMNS,
            policy=trained.policy, reference=trained.initial_policy, load=trained.load_or_reuse,
            micro_batch_tokens=config.train_step.micro_batch_tokens,
        )  # fmt: skip
        return here

    def _settle(self, step: int, seconds: dict[str, float]) -> dict[str, Any]:
        """Evaluates if it is time, writes the metrics line, removes old checkpoints."""
        every, steps = self.config.train.eval_every, self.config.train.steps
        record = {"step": step, **self.folder.summary(step), "seconds": dict(seconds)}
        evaluated = None
        if every and (step % every == 0 or step == steps):
            evaluated = self._evaluate(step)
        if not self._world.is_main_process:
            return record
        if evaluated:
            record["eval"] = pass_at_k.run_measures(evaluated).intervals()
        self.folder.log(record)
        self.folder.prune(self.config.train.keep)
        return record

    def _score(self, rollouts: Shards, out: Path, *, share: Share) -> Shards | None:
        """Scores by workers that live as long as the run does, if its verifiers need any."""
        allow_code = self.config.train.allow_code_execution
        if self._scorer is None:
            sandbox = score.sandbox(unsafe=False) if allow_code else None
            self._scorer = score.scorer(sandbox=sandbox)
        return score.run(
            rollouts, out, share=share, with_scorer=self._scorer, allow_code=allow_code
        )

    def _dismiss(self) -> None:
        if self._scorer:
            self._scorer.close()

    def _divided(self, stage: Callable, source: Shards, out: Path, **options: Any) -> Shards:
        """A stage whose parts the processes divide among themselves."""
        share = Share(self._world.rank, self._world.size)
        return common.together(stage(source, out, **options, share=share), out)

    def _once(self, stage: Callable, source: Shards, out: Path, **options: Any) -> Shards:
        """A stage that the leading process runs for all."""
        made = stage(source, out, **options) if self._world.is_main_process else None
        return common.together(made, out)

    def _saves(self, step: int) -> bool:
        """Whether a step ends with a checkpoint; adapters are small and are always written."""
        every, train = self.config.train.eval_every, self.config.train
        due = step % train.save_every == 0 or step == train.steps or (every and step % every == 0)
        return bool(due) or self.config.train_step.lora_rank > 0

    def _selection(self, step: int) -> rollout.Selection:
        """The prompts of a step, or all held-out ones at step 0."""
        size = self.config.train.prompts_per_step if step else None
        return rollout.Selection(self.config.train.seed, step, size)

    def _prepare(self) -> None:
        """Finds prompts and models; refuses others than those that the run was started with."""
        train, start = self.config.train, self._trained.initial_policy
        self.prompts = self._prompts("train", train.prompts)
        if train.eval_every:
            self.heldout = self._prompts("heldout", train.heldout)
        self._selection(1).of(self.prompts.table()["prompt_id"].to_pylist())
        model = remembering.chosen(self._sampling, start, self.folder.path, train.seed)
        self._memory = MemoryState(model, self.config) if model else None
        self._sampler = Sampler(
            self.config, self._trained, self._memory, self.prompts, clock=self._clock
        )
        inputs = {"policy": start.digest, "prompts": self.prompts.digest}
        if train.eval_every:
            inputs["heldout"] = self.heldout.digest
        if model:
            inputs["memory_model"] = model.digest
        inputs |= objective.origins(train.algo)
        inputs |= registry.origins("rollout", self.config.rollout.engine)
        inputs |= registry.origins("training", self.config.train_step.trainer)
        self.folder.claim_inputs(inputs)

    def _prompts(self, split: str, given: str) -> Shards:
        if given:
            return Shards.open(Path(given), "prompts")
        task = registry.canonical("tasks", f"{BUILTIN_TASK}:split={split}")
        return prompts.make_whole(
            prompts.from_task(task), self.folder.path / "prompts" / split, params={"task": task}
        )

    def _reached(self) -> tuple[int, dict[str, float]]:
        """The step to go on behind, and its seconds; the log is as if the run ended there."""
        last = self.folder.last_step()
        return last, self.folder.mend_log(last)

    def _load(self, step: int) -> None:
        """The policy of a step with its trainer; updates behind it are made again."""
        if self._world.is_main_process:
            self.folder.forget_behind(step)
        here = self.folder.of("steps", step)
        policy = policies.resolve(str(here / "update")) if step else self._trained.initial_policy
        preflight.require_memory(
            self.config, policy, self.prompts.table()["messages"],
            model=self._memory.policy if self._memory else None,
            reference=bool(
                self.config.train.eval_every or logprob.reference_columns(self.goal.needs)
            ),
            size=self._world.size,
        )  # fmt: skip
        self._trained.load(policy)
        if self._memory:
            self._memory.load(here if step else None)
        distributed.barrier()

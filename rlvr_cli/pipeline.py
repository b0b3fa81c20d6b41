"""The loop of `train`: the same stages as the commands, over one run directory."""

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rlvr_cli import device, files, lookup, memory, objective, remembering, world
from rlvr_cli import policy as policies
from rlvr_cli.config import RolloutOptions, RunConfig
from rlvr_cli.errors import UsageError
from rlvr_cli.policy import Loaded, Policy
from rlvr_cli.protocols import Resident, RolloutEngine, TrainingEngine
from rlvr_cli.recalled import Memory
from rlvr_cli.run_folder import RunFolder
from rlvr_cli.scoring.scorer import Scorer
from rlvr_cli.shape import shape_of
from rlvr_cli.shards import MANIFEST, Shards, Share
from rlvr_cli.stages import (
    advantage,
    agreement,
    common,
    evaluate,
    logprob,
    prompts,
    rollout,
    score,
    steps,
    train_step,
)

BUILTIN_TASK = "expression"


class Run:
    """A run directory, and the policy in memory that its stages share."""

    def __init__(self, path: Path, config: RunConfig) -> None:
        self.config = config
        self.goal = objective.build(config.train.algo)
        self.policy: Policy
        self.loaded: Loaded
        self._trainer: TrainingEngine
        self._start: Loaded | None = None
        self._resident: Resident | None = None
        self._memory: Memory | None = None
        self._scorer: Scorer | None = None
        self._is_handed = False
        self._clock = _Clock()
        self._sampling = remembering.sampling(
            config.rollout, config.train.algo, decoupled=self.goal.decoupled
        )
        self.folder = RunFolder(path, with_memory=self._sampling.is_decoupled)
        self._world = world.start() if world.current().size > 1 else world.current()
        rollout.check(self._sampling, self._selection(1))
        train_step.check_sampling(vars(config.rollout), "a run would sample")
        advantage.check_length(self.goal, config.rollout.max_new_tokens)

    def train(self) -> Iterator[dict[str, Any]]:
        """Runs or goes on with the loop; one record a step, the first for where it starts.

        Where there are several processes each of them runs this, and the leading one writes.
        """
        self.check()
        files.make_folder(self.folder.path)
        with contextlib.ExitStack() as stack:
            stack.callback(self._dismiss)
            if self._world.leads:
                stack.enter_context(self.folder.claimed(self.config))
                self._prepare()
            world.wait()
            if not self._world.leads:
                self._prepare()
            last, seconds = world.tell(self._reached() if self._world.leads else None)
            self._load(last)
            yield self._settle(last, seconds) | {"seconds": {}}
            for step in range(last + 1, self.config.train.steps + 1):
                yield self._settle(step, self._step(step))

    def _dismiss(self) -> None:
        if self._scorer:
            self._scorer.close()

    def check(self) -> None:
        """Refuses a policy or prompts that are not there, without making anything."""
        self.start = policies.resolve(self.config.train.model)
        train_step.check(self.config.train_step, self.goal, self.start)
        self._check_processes()
        options = self.config.train
        for given in (options.prompts, options.heldout):
            if given:
                Shards.open(Path(given), "prompts")
        if options.prompts and options.eval_every and not options.heldout:
            raise UsageError(
                "there are prompts to train on and none to evaluate on",
                "name some with `--heldout DIR`, or leave evaluation out with `--eval-every 0`",
            )

    def _check_processes(self) -> None:
        """Refuses what several processes cannot divide among themselves."""
        size, sampling = self._world.size, self.config.rollout
        if size > 1 and sampling.max_draws > 1:
            raise UsageError(
                f"--max-draws is {sampling.max_draws}, and {size} processes were started",
                "use one process: what is drawn depends on the rewards of all groups",
            )
        if size > 1 and self._sampling.is_decoupled:
            raise UsageError(
                f"DLC trains its memory model in one process, and {size} were started",
                "leave --nproc out",
            )
        engine, trainer = sampling.engine.partition(":")[0], self.config.train_step.trainer
        divides = lookup.parse("training", trainer)[1].get("zero") == 3
        if size > 1 and divides and engine in ("transformers", "graph"):
            raise UsageError(
                f"--trainer is {trainer}, and --engine {engine} samples from the trainer's own "
                f"weights, of which each of the {size} processes has a share",
                "sample with --engine vllm, or train with deepspeed:zero=2",
            )
        prompts = self.config.train.prompts_per_step
        if size > -(-prompts // sampling.prompts_per_part):
            raise UsageError(
                f"a step of {prompts} prompts in parts of {sampling.prompts_per_part} is too few "
                f"parts for {size} processes",
                f"use --prompts-per-part {max(1, prompts // size)}",
            )

    def _step(self, step: int) -> dict[str, float]:
        """Rollout, score, advantage and update; the seconds that each took."""
        config, here = self.config, self.folder.of("steps", step)
        clock = self._clock = _Clock()
        rollouts = clock(
            "rollout", self._sample, self.prompts, here / "rollouts", self._sampling, step
        )
        scores = clock("score", self._divided, self._score, rollouts, here / "scores")
        score.check_error_rate(scores, config.train.max_error_rate)
        logprobs = None
        if columns := logprob.reference_columns(self.goal.needs):
            logprobs = clock(
                "logprob", self._divided, logprob.run, rollouts, here / "logprobs", columns=columns,
                reference=self.start, ref_top_k=self.goal.top_k, load=self._in_memory,
                micro_batch_tokens=config.train_step.micro_batch_tokens,
            )  # fmt: skip
        advantages = clock(
            "advantage",
            self._once,
            advantage.run,
            scores,
            here / "advantages",
            algo=config.train.algo,
        )
        saves = self._saves(step)
        update = clock(
            "train_step", train_step.run, advantages, here / "update", self.policy,
            config.train_step, seed=config.train.seed, logprobs=logprobs, allow_empty=True,
            save=saves, engine=lambda: self._trainer,
        )  # fmt: skip
        self.policy = steps.behind(update, self.policy, save=saves)
        if self._memory:
            clock("memory_step", self._memory.update, rollouts, here / "memory", save=saves)
        return clock.seconds

    def _score(self, rollouts: Shards, out: Path, *, share: Share) -> Shards | None:
        """Scores by workers that live as long as the run does, if its verifiers need any."""
        allow_code = self.config.train.allow_code_execution
        if self._scorer is None:
            sandbox = score.sandbox(unsafe=False) if allow_code else None
            self._scorer = score.scorer(sandbox=sandbox)
        return score.run(
            rollouts, out, share=share, with_scorer=self._scorer, allow_code=allow_code
        )

    def _divided(self, stage: Callable, source: Shards, out: Path, **options: Any) -> Shards:
        """A stage whose parts the processes divide among themselves."""
        share = Share(self._world.rank, self._world.size)
        return common.together(stage(source, out, **options, share=share), out)

    def _once(self, stage: Callable, source: Shards, out: Path, **options: Any) -> Shards:
        """A stage that the leading process runs for all."""
        made = stage(source, out, **options) if self._world.leads else None
        return common.together(made, out)

    def _sample(self, prompts: Shards, out: Path, options: RolloutOptions, step: int) -> Shards:
        """Rollouts of the policy as it is now; an engine with weights of its own rests behind."""
        if self._world.size > 1 and not world.tell((out / MANIFEST).exists()):
            self._sampler()  # together, whatever parts each process finds missing
        made = self._divided(
            rollout.run, prompts, out, policy=self.policy, options=options,
            selection=self._selection(step), engine=self._sampler,
            memory=self._memory.policy if self._memory and options.is_decoupled else None,
        )  # fmt: skip
        if self._resident:
            self._resident.rest()
            self._is_handed = False
        return made

    def _saves(self, step: int) -> bool:
        """Whether a step ends with a checkpoint; adapters are small and are always written."""
        every, train = self.config.train.eval_every, self.config.train
        due = step % train.save_every == 0 or step == train.steps or (every and step % every == 0)
        return bool(due) or self.config.train_step.lora_rank > 0

    def _selection(self, step: int) -> rollout.Selection:
        """The prompts of a step, or all held-out ones at step 0."""
        size = self.config.train.prompts_per_step if step else None
        return rollout.Selection(self.config.train.seed, step, size)

    def _evaluate(self, step: int) -> Path:
        """Where held-out completions of the policy at a step are, scored and with log-probs."""
        config, here = self.config, self.folder.of("eval", step)
        options = dataclasses.replace(
            config.rollout, num_generations=config.train.eval_num_generations, max_draws=1,
            memory_model="", dlc_min_prob=0.0,
        )  # fmt: skip
        rollouts = self._sample(self.heldout, here / "rollouts", options, 0)
        scores = self._divided(self._score, rollouts, here / "scores")
        score.check_error_rate(scores, config.train.max_error_rate)
        self._divided(
            logprob.run, rollouts, here / "logprobs", columns=evaluate.TOKEN_COLUMNS,
            policy=self.policy, reference=self.start, load=self._in_memory,
            micro_batch_tokens=config.train_step.micro_batch_tokens,
        )  # fmt: skip
        return here

    def _prepare(self) -> None:
        self.prompts = self._prompts("train", self.config.train.prompts)
        if self.config.train.eval_every:
            self.heldout = self._prompts("heldout", self.config.train.heldout)
        self._selection(1).of(self.prompts.table()["prompt_id"].to_pylist())
        seed = self.config.train.seed
        model = remembering.chosen(self._sampling, self.start, self.folder.path, seed)
        self._memory = Memory(model, self.config) if model else None
        inputs = {"policy": self.start.digest, "prompts": self.prompts.digest}
        if self.config.train.eval_every:
            inputs["heldout"] = self.heldout.digest
        if model:
            inputs["memory_model"] = model.digest
        self.folder.claim_inputs(inputs)

    def _reached(self) -> tuple[int, dict[str, float]]:
        """The step to go on behind, and its seconds; the log is as if the run ended there."""
        last = self.folder.last_step()
        return last, self.folder.mend_log(last)

    def _prompts(self, split: str, given: str) -> Shards:
        if given:
            return Shards.open(Path(given), "prompts")
        task = lookup.canonical("tasks", f"{BUILTIN_TASK}:split={split}")
        return prompts.make_whole(
            prompts.from_task(task), self.folder.path / "prompts" / split, params={"task": task}
        )

    def _load(self, step: int) -> None:
        """The policy of a step with its trainer; updates behind it are made again."""
        if self._world.leads:
            self.folder.forget_behind(step)
        update = self.folder.of("steps", step) / "update"
        self.policy = policies.resolve(str(update)) if step else self.start
        self._require_memory()
        self.loaded = policies.load(self.policy)
        self._trainer = train_step.trainer(
            self.loaded, self.config.train_step, self.config.train.seed
        )
        if self._memory:
            self._memory.load(self.folder.of("steps", step) if step else None)
        world.wait()

    def _require_memory(self) -> None:
        """Refuses a run that a GPU has no memory for, before any weight is loaded."""
        place, messages = device.here(), self.prompts.table()["messages"]
        if self._memory:
            held = memory.beside(shape_of(self._memory.policy), place, trained=True)
            place = dataclasses.replace(place, free=place.free - held)
        needs = memory.run(
            shape_of(self.policy, self.config.train_step),
            self.config,
            place,
            prompt=rollout.longest_prompt(self.policy, messages),
            reference=bool(self.config.train.eval_every)
            or bool(logprob.reference_columns(self.goal.needs)),
            size=self._world.size,
        )
        for need in needs:
            memory.require(self.policy, need, place)

    def _in_memory(self, policy: Policy) -> Loaded:
        """The policy being trained, or the one it started from, which is loaded once."""
        if policy is self.policy and policy is not self.start:
            return policies.load(policy, frozen=True) if self._trainer.divided else self.loaded
        if self._start is None:
            self._start = policies.load(self.start, frozen=True)
        return self._start

    def _sampler(self) -> RolloutEngine:
        """The rollout engine on the policy being trained.

        With adapters the first rollouts are of the start policy without them, as a command's are:
        at B = 0 they change nothing but the rounding.
        """
        rank = self.config.train_step.lora_rank
        if self._resident is None:
            build = lookup.build("rollout", self.config.rollout.engine)
            loaded = self._in_memory(self.policy) if rank else self.loaded
            beside = {"memory": self._memory.loaded} if self._memory else {}
            engine = build(self.policy, loaded, rank, **beside)
            if not engine.own_weights:
                return engine
            self._resident = engine
        if not self._is_handed:
            self._clock("hand_over", self._hand_over, self._resident)
        return self._resident

    def _hand_over(self, engine: Resident) -> None:
        """Gives the engine the policy as it is now, and sees that both agree on it."""
        engine.hand_over(self._trainer, self.policy)
        found = agreement.measure(engine, self._trainer, [self._probe], max_new_tokens=16)
        agreement.check(found, engine.dtype)
        self._is_handed = True

    @functools.cached_property
    def _probe(self) -> list[int]:
        """The prompt that sampler and trainer are compared on: the first to train on."""
        first = self.prompts.part(0).slice(0, 1).to_pylist()[0]
        return policies.encode_prompt(
            policies.load_tokenizer(self.start), first["prompt_id"], first["messages"]
        )

    def _settle(self, step: int, seconds: dict[str, float]) -> dict[str, Any]:
        """Evaluates if it is time, writes the metrics line, removes old checkpoints."""
        every, steps = self.config.train.eval_every, self.config.train.steps
        record = {"step": step, **self.folder.summary(step), "seconds": seconds}
        evaluated = None
        if every and (step % every == 0 or step == steps):
            evaluated = self._evaluate(step)
        if not self._world.leads:
            return record
        if evaluated:
            record["eval"] = evaluate.run_measures(evaluated).intervals()
        self.folder.log(record)
        self.folder.prune(self.config.train.keep)
        return record


class _Clock:
    """Calls stages and keeps the seconds of each, without those of a stage called within it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, name: str, stage: Callable, *arguments: Any, **options: Any) -> Any:
        start, before = time.perf_counter(), sum(self.seconds.values())
        made = stage(*arguments, **options)
        within = sum(self.seconds.values()) - before
        self.seconds[name] = time.perf_counter() - start - within
        return made

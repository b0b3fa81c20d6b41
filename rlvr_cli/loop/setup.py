"""From a configuration to a run: checks it, locks the directory, finds where it resumes, loads it.

The main process prepares the directory first; the others wait, then open what it wrote.
"""

import contextlib
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from rlvr_cli import registry
from rlvr_cli.algorithms import objective as objectives
from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.config import RolloutOptions, RunConfig
from rlvr_cli.errors import DataError
from rlvr_cli.loop import alike, evaluations, input_places, preflight, refused_start, schedule
from rlvr_cli.loop.following import Others
from rlvr_cli.loop.memory_state import MemoryState
from rlvr_cli.loop.policy_state import PolicyState
from rlvr_cli.loop.run import Record, Run
from rlvr_cli.loop.run_directory import LOCK, RunDirectory
from rlvr_cli.loop.sampler import Sampler
from rlvr_cli.loop.schedule import Schedule
from rlvr_cli.loop.timer import Timer
from rlvr_cli.models import memory_model, policy as policies, prompt_options, questions
from rlvr_cli.models.checkpoints import CHECKPOINT
from rlvr_cli.models.policy import Policy
from rlvr_cli.runtime import distributed
from rlvr_cli.runtime.distributed import World
from rlvr_cli.stages import (
    advantage_checks,
    logprob,
    prompts,
    rollout_options,
    rollout_remarks,
    room as rooms,
    score,
    task_prompts,
    train_step,
)
from rlvr_cli.stages.selection import Selection
from rlvr_cli.storage import atomic, branch_origins, fetched, moved
from rlvr_cli.storage.atomic import Syncing
from rlvr_cli.storage.images import Images
from rlvr_cli.storage.shards import Shards
from rlvr_cli.terminal import console
from rlvr_cli.verification.scoring import rewards


@dataclass(frozen=True)
class Setup:
    """A run that passed all checks; nothing is written yet."""

    config: RunConfig
    directory: RunDirectory
    world: World
    objective: Objective
    sampling: RolloutOptions
    initial_policy: Policy
    schedule: Schedule


@dataclass(frozen=True)
class Inputs:
    """What a run reads: prompts and, with DLC, the memory model that it starts from.

    `digests` are of all that it reads, by their names in inputs.json.
    """

    prompts: Shards
    heldout: Shards | None
    memory_model: Policy | None
    digests: dict[str, str] = field(default_factory=dict)


def settled(config: RunConfig, samplers: int = 1) -> tuple[RunConfig, list[str]]:
    """The configuration for this machine and these processes, and what there is to say of it."""
    policy = policies.resolve(config.train.model)
    size = max(samplers, distributed.current().size)
    update, of_trainer = train_step.settle(config.train_step)
    prompts = config.train.prompts_per_step
    sampling, said = rollout_options.settle(
        config.rollout, policy, prompts, size, trainer=update.trainer,
        of=preflight.given_prompts(config.train),
    )  # fmt: skip
    config = replace(config, rollout=sampling, train_step=update)
    return config, [*of_trainer, *said, *preflight.sampler_remarks(config)]


def check(path: Path, config: RunConfig, *, follows: bool = False) -> Setup:
    """Refuses a configuration, a policy or prompts that a run cannot have; makes nothing.

    In a run that `follows`, other processes write the rollouts and scores.
    """
    input_places.require(path, config)
    config = replace(config, rollout=prompt_options.resolved(config.rollout))
    config, _ = settled(config)
    objective = objectives.build(config.train.algo)
    sampling = memory_model.sampling(
        config.rollout, config.train.algo, decoupled=objective.decoupled
    )
    first = Selection(config.train.seed, 1, config.train.prompts_per_step)
    rollout_options.check(sampling, first)
    preflight.check_engine(sampling)
    preflight.check_evaluation(config)
    train_step.check_sampling(vars(config.rollout), "a run would sample")
    advantage_checks.check_length(objective, config.rollout.max_new_tokens)
    initial_policy = policies.resolve(config.train.model)
    train_step.check(config.train_step, objective, initial_policy)
    preflight.check_objective(config, objective)
    world = distributed.current()
    preflight.check_processes(config, world.size, decoupled=sampling.is_decoupled)
    if follows or config.train.ahead:
        preflight.check_following(config, decoupled=sampling.is_decoupled)
        objectives.build(preflight.corrected(config), named_by="--stale-correction")
    preflight.check_adapters(config, initial_policy)
    preflight.check_prompts(config)
    preflight.check_images(config, sampling, initial_policy)
    prompt_remarks(config, initial_policy)
    train = config.train
    directory = RunDirectory(
        path, with_memory=sampling.is_decoupled, with_staleness=train.ahead > 0
    )
    directory.require_same(config)
    planned = Schedule(path, train.steps, train.ahead, schedule.given(train))
    if prompts_path := task_prompts.directory(config.train.prompts):
        given = Shards.open(prompts_path)
        questions.refuse_answers(given)
        first.of(given)
    if directory.last_step() < config.train.steps:
        preflight.check_services(config.train)
    return Setup(config, directory, world, objective, sampling, initial_policy, planned)


def dry_run(setup: Setup) -> None:
    """Refuses what the run would refuse once it has begun: other content than it was begun with."""
    if setup.directory.begun() is None:
        return
    train = setup.config.train
    inputs = {"policy": setup.initial_policy.digest}
    for name, given in (("prompts", train.prompts), ("heldout", train.heldout)):
        if path := task_prompts.directory(given):
            inputs[name] = Shards.open(path, "prompts").digest
    setup.directory.require_inputs(inputs)


def prompt_remarks(config: RunConfig, policy: Policy) -> list[str]:
    """How the prompts to train on are put to the policy; an error if options do not fit them."""
    given = task_prompts.directory(config.train.prompts)
    prompts = Shards.open(given, "prompts") if given else None
    return rollout_remarks.prompt_remarks(config.rollout, policy, prompts)


def train(path: Path, config: RunConfig, others: Others | None = None) -> Iterator[Record]:
    """Runs the loop or resumes it; one record a step, the first for where it starts.

    With `others` it trains on what they sample and score: they join once its models are loaded.
    Where there are several processes each of them runs this, and the main one writes.
    """
    if distributed.current().size > 1:
        distributed.start()
        alike.require_configuration(config)
    setup = check(path, config, follows=others is not None)
    fresh = refused_start.absent(path)
    with contextlib.ExitStack() as stack:
        stack.enter_context(atomic.made_folder(path))
        stack.enter_context(moved.forgotten())
        if setup.world.is_main_process:
            stack.enter_context(setup.directory.lock_and_check_config(setup.config))
            stack.enter_context(refused_start.undone(path, fresh))
            inputs = prepare(setup)
        if setup.world.size > 1:
            alike.require_directory(path, setup.directory.path / LOCK)
        if not setup.world.is_main_process:
            inputs = prepare(setup)
        last = rewind(setup)
        for step in last.evaluations.sampled:
            with contextlib.closing(load(setup, inputs, step)) as earlier:
                earlier.evaluate(step)
        run = load(setup, inputs, last.step, others)
        stack.callback(run.close)
        if setup.world.is_main_process:
            setup.directory.keep_inputs(inputs.digests)
            if others:
                fresh.clear()  # nothing is undone once others may have joined
                others.begin()
        for step in last.evaluations.scored:
            run.score_evaluation(step)
        yield from run.steps(_repaired_seconds(setup, last.step))


def prepare(setup: Setup) -> Inputs:
    """Finds prompts and models; refuses others than those that the run was started with."""
    train = setup.config.train
    if setup.world.is_main_process and setup.sampling.memory_model == memory_model.AUTO:
        setup.directory.discard_memory_model(setup.directory.path / memory_model.FOLDER)
    inputs = Inputs(
        _prompts(setup, "train", train.prompts),
        _prompts(setup, "heldout", train.heldout) if train.eval_every else None,
        memory_model.chosen(setup.sampling, setup.initial_policy, setup.directory.path, train.seed),
    )
    for given in filter(None, (inputs.prompts, inputs.heldout)):
        questions.refuse_answers(given)
        moved.remember(given.digest, given.path)
    moved.remember(setup.initial_policy.digest, setup.initial_policy.path)
    first = Selection(train.seed, 1, train.prompts_per_step)
    first.of(inputs.prompts)
    digests = {"policy": setup.initial_policy.digest, "prompts": inputs.prompts.digest}
    if inputs.heldout:
        digests["heldout"] = inputs.heldout.digest
    if inputs.memory_model:
        digests["memory_model"] = inputs.memory_model.digest
    if setup.schedule.given is not None:
        digests["schedule"] = schedule.digest(setup.schedule.given)
    digests |= objectives.origins(preflight.corrected(setup.config) if train.ahead else train.algo)
    digests |= rewards.origins(train.verifier) if train.verifier else {}
    digests |= registry.origins("rollout", setup.config.rollout.engine)
    digests |= registry.origins("training", setup.config.train_step.trainer)
    setup.directory.require_inputs(digests)
    return replace(inputs, digests=digests)


def _prompts(setup: Setup, split: str, given: str) -> Shards:
    if path := task_prompts.directory(given):
        return Shards.open(path, "prompts")
    task = task_prompts.of_split(setup.config.train, split)
    assert task is not None, "a run that evaluates has held-out prompts"
    folder = setup.directory.path / "prompts" / split
    return prompts.make_all_parts(prompts.from_task(task), folder, params={"task": task})


@dataclass(frozen=True)
class Last:
    """The newest step that has a complete checkpoint, and the evaluations to make again."""

    step: int
    evaluations: evaluations.Lost


def rewind(setup: Setup) -> Last:
    """Finds the step from which the run resumes, and removes what will be written again.

    Updates after that step are repeated from the rollouts that they stored.
    """
    last = None
    if setup.world.is_main_process:
        directory = setup.directory
        step = directory.last_step(say=True)
        _require_shared_step(setup, step)
        directory.discard_after(step)
        last = Last(step, evaluations.discard_damaged(directory, step))
    resumed: Last = distributed.broadcast(last)
    return resumed


def _require_shared_step(setup: Setup, last: int) -> None:
    """An error where a branch would repeat shared steps, which have other options."""
    here, begun = setup.directory.path, setup.directory.begun() or {}
    origin = branch_origins.newest(here)
    if origin is None or not origin.changed or last >= origin.at:
        return
    words = ["rlvr", "branch", fetched.joined(here, origin.run), "--at", str(origin.at)]
    given = [w for name in origin.changed for w in (f"--{name}", begun["train"][name])]
    raise DataError(
        f"`{here}` has no complete checkpoint since step {origin.at}, where it branched",
        f"make it again: `{shlex.join([*words, *given])} --out DIR`",
    )


def _repaired_seconds(setup: Setup, last: int) -> dict[str, float]:
    """The seconds of the last step, from metrics.jsonl, which is cut after that step."""
    repaired = setup.directory.repair_metrics(last) if setup.world.is_main_process else None
    seconds: dict[str, float] = distributed.broadcast(repaired)
    return seconds


def load(setup: Setup, inputs: Inputs, last_step: int, others: Others | None = None) -> Run:
    """The run with its models in memory, at a step that has a complete checkpoint."""
    config, directory = setup.config, setup.directory
    here = directory.of("steps", last_step) if last_step else None
    policy = policies.resolve(str(here / "update")) if here else setup.initial_policy
    model = inputs.memory_model and MemoryState.checkpoint(inputs.memory_model, here)
    preflight.require_memory(
        config, policy, questions.parts_with_raw(inputs.prompts), model=model,
        size=setup.world.size, images=Images.of(inputs.prompts),
        reference=bool(config.train.eval_every or logprob.reference_columns(setup.objective.needs)),
    )  # fmt: skip
    room = rooms.of_run(config, policy, model, publishes=others is not None)
    if setup.world.is_main_process:
        adapters = config.train_step.lora_rank > 0
        room.check(directory.path, config.train, last_step, adapters=adapters)
    timer = Timer()
    state = PolicyState.load(setup.initial_policy, policy, config)
    memory = MemoryState.load(model, config) if model else None
    sandbox = score.sandbox(unsafe=False) if config.train.allow_code_execution else None
    verification = score.Verification(
        config.train.verifier or None, config.train.answer_from,
        config.train.allow_code_execution, score.scorer(sandbox=sandbox), console.say,
    )  # fmt: skip
    sampler = Sampler(config, state, memory, inputs.prompts, timer=timer, verification=verification)
    distributed.barrier()
    syncing = Syncing()
    if setup.world.is_main_process and here:  # a killed process may have left it on its way
        for checkpoint in here.glob(f"*/{CHECKPOINT}"):
            syncing.begin(checkpoint, is_new=False)
    return Run(
        config, directory, setup.world, setup.objective, setup.sampling, inputs.prompts,
        inputs.heldout, state, memory, sampler, verification, timer, last_step, room, syncing,
        setup.schedule, others,
    )  # fmt: skip

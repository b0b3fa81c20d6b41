"""What a run refuses before its first step."""

import dataclasses
import shlex
from collections.abc import Iterable

import pyarrow as pa

from rlvr_cli import registry
from rlvr_cli.algorithms import objective as objectives
from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.config import RolloutOptions, RunConfig, RunOptions, UpdateOptions
from rlvr_cli.errors import UsageError
from rlvr_cli.memory_estimate import phases
from rlvr_cli.memory_estimate.model_size import shape_of
from rlvr_cli.models import engine_choice, pretrained
from rlvr_cli.models.policy import Policy
from rlvr_cli.runtime import device, distributed
from rlvr_cli.specs import grammar
from rlvr_cli.stages import (
    logprob,
    overlap,
    prompt_rewards,
    prompts,
    rollout,
    room,
    row_images,
    task_prompts,
)
from rlvr_cli.storage.images import Images
from rlvr_cli.storage.shards import Shards
from rlvr_cli.terminal import console
from rlvr_cli.verification.parsing import thoughts
from rlvr_cli.verification.scoring import rewards

_LOWER = {"vllm": "quantization", "graph": "cache"}  # options that lower an engine's precision


def check_prompts(config: RunConfig) -> None:
    """Refuses prompts that a run cannot have.

    They are not there or cannot be verified, there are none to evaluate on, or they are trained on.
    """
    options = config.train
    thoughts.read(options.answer_from)
    if options.verifier:
        rewards.build(options.verifier, named_by="the configuration of the run")
    for given in given_prompts(options):
        prompt_rewards.check(
            given, verifier=options.verifier or None, allow_code=options.allow_code_execution
        )
    evaluates = options.eval_every and not options.heldout
    if task_prompts.directory(options.prompts) and evaluates:
        raise UsageError(
            "there are prompts to train on and none to evaluate on",
            "name some with `--heldout DIR`, or leave evaluation out with `--eval-every 0`",
        )
    if options.prompts or options.heldout:
        check_overlap(options)


def given_prompts(options: RunOptions) -> list[Shards]:
    """The directories of prompts that a run was given, to train and to evaluate on."""
    given = map(task_prompts.directory, (options.prompts, options.heldout))
    return [Shards.open(path, "prompts") for path in filter(None, given)]


def check_images(config: RunConfig, sampling: RolloutOptions, policy: Policy) -> None:
    """Refuses prompts with images if the policy, the engine or DLC reads only text."""
    for given in given_prompts(config.train):
        row_images.check(given, policy, sampling)
    if row_images.refusal("", policy, sampling) is None:
        return  # a task need not make its prompts for this
    for task in (task_prompts.of_split(config.train, split) for split in ("train", "heldout")):
        rows = prompts.from_task(task) if task else []
        name = next((row["prompt_id"] for row in rows if row["images"]), None)
        if name and (error := row_images.refusal(name, policy, sampling)):
            raise error


def check_services(options: RunOptions) -> None:
    """Refuses verifiers whose service does not answer."""
    if options.verifier:
        rewards.require_services(rewards.build(options.verifier))
        return
    for given in given_prompts(options):
        golds = prompt_rewards.PromptRewards(given, None)
        rewards.require_services(golds.parts)


def check_overlap(options: RunOptions) -> None:
    """Refuses to train on held-out prompts, or reports how many; reports repeated prompts."""
    training = _ids_and_messages("train", options)
    if repeats := overlap.repeated(training):
        named = options.prompts or "the built-in task"
        _say(f"{repeats} of the {len(training)} prompts of `{named}` repeat an earlier one")
    if not options.eval_every:
        return
    heldout = _ids_and_messages("heldout", options)
    shared = overlap.between(training, heldout)
    if not shared.prompts:
        return
    by = [f"{shared.text} with the same text"] if shared.text else []
    by += [f"{shared.id_alone} with the same id"] if shared.id_alone else []
    text = f"{shared.prompts} of {len(heldout)} held-out prompts are trained on"
    text += f", {' and '.join(by)}, as `{shared.example}`"
    if not options.allow_overlap:
        words = (
            "rlvr",
            "prompts",
            options.prompts or f"task:{task_prompts.BUILTIN_TASK}",
            "--without",
        )
        way = shlex.join((*words, options.heldout, "--out", "trained-on"))
        raise UsageError(
            text, f"leave them out with `{way}`, or evaluate on them too with --allow-overlap"
        )
    _say(f"{text}: their figures say how well they are remembered")


def _ids_and_messages(split: str, options: RunOptions) -> list[tuple[str, str]]:
    given = task_prompts.directory(options.prompts if split == "train" else options.heldout)
    if given:
        return list(overlap.of_shards(Shards.open(given, "prompts")))
    task = task_prompts.of_split(options, split)
    rows = prompts.from_task(task) if task else []
    return [(row["prompt_id"], row["messages"]) for row in rows]


def _say(text: str) -> None:
    if distributed.current().is_main_process:
        console.remark("train", text)


def check_processes(config: RunConfig, size: int, *, decoupled: bool) -> None:
    """Refuses what several processes cannot divide among themselves."""
    sampling = config.rollout
    if size > 1 and sampling.max_draws > 1:
        raise UsageError(
            f"--max-draws is {sampling.max_draws}, and {size} processes were started",
            "use one process: what is drawn depends on the rewards of all groups",
        )
    if size > 1 and decoupled:
        raise UsageError(
            f"DLC trains its memory model in one process, and {size} were started",
            "leave --nproc out",
        )
    engine, trainer = sampling.engine.partition(":")[0], config.train_step.trainer
    divides = registry.parse("training", trainer)[1].get("zero") == 3
    if divides and (engine == "graph" or (size > 1 and engine == "transformers")):
        raise UsageError(
            f"--trainer is {trainer}, and --engine {engine} samples from the trainer's own "
            "weights, which zero=3 divides among the processes and gathers only for the trainer",
            "sample with --engine vllm, or train with deepspeed:zero=2",
        )
    per_step = config.train.prompts_per_step
    if size > per_step:
        raise UsageError(
            f"a step of {per_step} prompts is too few for {size} processes",
            f"use --prompts-per-step {size}, or fewer processes",
        )


def check_objective(config: RunConfig, objective: Objective) -> None:
    """Refuses an objective that needs other rewards, groups or checkpoints than the run has."""
    train, count = config.train, config.rollout.num_generations
    if "parts" in objective.needs and len(rewards.weights(train.verifier or "")) < 2:
        raise UsageError(
            f"{train.algo} normalises each reward of one weighted sum on its own, and --verifier "
            f"{f'is {train.verifier}' if train.verifier else 'is not given'}",
            "name a sum, as in `--verifier 0.9*math+0.1*format`",
        )
    if objective.group_relative and count < objective.least_group:
        raise UsageError(
            f"{train.algo} compares {objective.least_group} completions of a prompt or more, "
            f"--num-generations is {count}",
            f"use --num-generations {2 * objective.least_group - 2}",
        )
    divides = registry.parse("training", config.train_step.trainer)[1].get("zero") == 3
    adapters = config.train_step.lora_rank > 0
    steps = range(1, train.steps + 1)
    saved = room.saves(train, steps, adapters=adapters)
    if logprob.stored_columns(objective.needs) and divides and saved < train.steps:
        raise UsageError(
            f"{train.algo} reads log-probs of each step's policy, which with zero=3 are those of "
            f"its checkpoint, and --save-every is {train.save_every}",
            "use --save-every 1, or train with deepspeed:zero=2",
        )


def check_following(config: RunConfig, *, decoupled: bool) -> None:
    """Refuses, where steps are sampled ahead or by other processes, what needs them in turn."""
    if config.rollout.max_draws > 1:
        raise UsageError(
            f"--max-draws is {config.rollout.max_draws}, and steps are sampled ahead: what is "
            "drawn depends on rewards that are not there yet",
            "leave --max-draws out, or leave --ahead and --async out",
        )
    if decoupled:
        raise UsageError(
            f"{config.train.algo} samples with a memory model that each update trains on, and "
            "steps are sampled ahead",
            "leave `+dlc` out, or leave --ahead and --async out",
        )


def corrected(config: RunConfig) -> str:
    """The objective of steps that were sampled by an earlier policy than they train.

    An objective that has the modifier keeps its own; with `--old-logprobs rollout`, or by the
    objective, the ratio itself is against the policy that sampled.
    """
    algo, modifier = config.train.algo, config.train.stale_correction
    if modifier == "none" or config.train_step.old_logprobs == "rollout":
        return algo
    if objectives.build(algo).against == "behaviour":
        return algo
    names = [grammar.read(piece).name for piece in grammar.pieces(algo)[1:]]
    return algo if grammar.read(modifier).name in names else f"{algo}+{modifier}"


def require_memory_to_sample(
    config: RunConfig,
    policy: Policy,
    prompts: Iterable[pa.Table],
    images: Images | None = None,
) -> None:
    """Refuses a sampler that a GPU has no memory for, before any weight is loaded."""
    sampling, accelerator = config.rollout, device.here()
    if accelerator.kind == "cpu":
        return
    need = phases.rollout(
        shape_of(policy, images=images is not None),
        sampling,
        accelerator,
        prompt=rollout.longest_prompt(policy, prompts, sampling, images),
        requests=config.train.prompts_per_step * sampling.num_generations,
    )
    phases.require(policy, need, accelerator)


def check_adapters(config: RunConfig, policy: Policy) -> None:
    """Refuses adapters of experts where vLLM samples, which does not read them as peft saves them.

    Those of other layers are left to vLLM.
    """
    update, engine = config.train_step, registry.parse("rollout", config.rollout.engine)[0]
    adapts_all = update.lora_rank and update.lora_targets == UpdateOptions.lora_targets
    if engine != "vllm" or not adapts_all:
        return
    if engine_choice.has_experts(pretrained.config((policy.base or policy).path)):
        raise UsageError(
            f"--lora-targets is {update.lora_targets}, experts among them, and vLLM does not read "
            "adapters of experts as they are saved",
            "sample with --engine transformers, or name the modules of the attention, as in "
            "`--lora-targets q_proj,k_proj,v_proj,o_proj`",
        )


def sampler_remarks(config: RunConfig) -> list[str]:
    """What there is to say of an engine that samples in a lower precision than is trained."""
    spec, algo = config.rollout.engine, config.train.algo
    name, options = registry.parse("rollout", spec)
    precision = options.get(_LOWER.get(name, ""), "none")
    is_corrected = "behaviour_logp" in objectives.build(algo).needs
    is_lower = precision not in ("none", "model")
    if not is_lower or is_corrected or config.train_step.old_logprobs == "rollout":
        return []
    way = shlex.join(("--algo", f"{algo}+is-correction"))
    kept = "keeps keys and values" if name == "graph" else "samples"
    return [
        f"--engine {kept} in {precision}, which gives other log-probs than the trainer's "
        f"(`sampler_gap`): correct for it with `{way}`"
    ]


def sampling_of_evaluations(config: RunConfig) -> RolloutOptions:
    """How held-out prompts are sampled: from the policy itself, else as in training by default."""
    train, sampling = config.train, config.rollout
    return dataclasses.replace(
        sampling,
        num_generations=train.eval_num_generations,
        temperature=sampling.temperature if train.eval_temperature < 0 else train.eval_temperature,
        max_new_tokens=train.eval_max_new_tokens or sampling.max_new_tokens,
        max_draws=1,
        memory_model="",
        dlc_min_prob=0.0,
    )


def check_engine(options: RolloutOptions) -> None:
    """Refuses an engine that asks servers: a run samples from the weights that it trains."""
    refuse = getattr(registry.module("rollout", options.engine), "refuse_training", None)
    if refuse:
        refuse()


def check_evaluation(config: RunConfig) -> None:
    """Refuses a way of sampling held-out prompts that makes no sense."""
    train = config.train
    if -1 < train.eval_temperature < 0:
        raise UsageError(
            f"--eval-temperature is {train.eval_temperature}",
            "use -1, which is that of training, or 0 and more",
        )
    once = sampling_of_evaluations(config)
    if train.eval_every and once.temperature == 0 and once.num_generations > 1:
        raise UsageError(
            f"evaluations at temperature 0 would sample {once.num_generations} times the same",
            "use `--eval-num-generations 1`, or an --eval-temperature above 0",
        )


def require_memory(
    config: RunConfig,
    policy: Policy,
    prompts: Iterable[pa.Table],
    *,
    model: Policy | None,
    reference: bool,
    size: int,
    images: Images | None = None,
) -> None:
    """Refuses a run that a GPU has no memory for, before any weight is loaded.

    `prompts` are those to train on with their `images`, `model` is the memory model of DLC; with a
    `reference` the start policy is in memory too.
    """
    accelerator = device.here()
    if model:
        reserved_bytes = phases.memory_model_bytes(shape_of(model), accelerator, trained=True)
        accelerator = dataclasses.replace(accelerator, free=accelerator.free - reserved_bytes)
    longest = config.rollout.max_new_tokens
    if config.train.eval_every:
        longest = max(longest, sampling_of_evaluations(config).max_new_tokens)
    needs = phases.run(
        shape_of(policy, config.train_step, images=images is not None),
        dataclasses.replace(
            config, rollout=dataclasses.replace(config.rollout, max_new_tokens=longest)
        ),
        accelerator,
        prompt=rollout.longest_prompt(policy, prompts, config.rollout, images),
        reference=reference,
        size=size,
    )
    for need in needs:
        phases.require(policy, need, accelerator)

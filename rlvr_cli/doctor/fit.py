"""Whether a run fits on the device in each phase, and whether sampler and trainer agree."""

from collections.abc import Iterator
from pathlib import Path

from rlvr_cli import registry
from rlvr_cli.algorithms import objective as objectives
from rlvr_cli.config import RunConfig
from rlvr_cli.doctor.finding import Finding
from rlvr_cli.errors import UserError
from rlvr_cli.memory_estimate import phases
from rlvr_cli.memory_estimate.model_size import shape_of
from rlvr_cli.memory_estimate.phases import gib
from rlvr_cli.models import chat, policy as policies, questions, tokenizers
from rlvr_cli.models.policy import Policy
from rlvr_cli.runtime import device as devices
from rlvr_cli.runtime.device import Device
from rlvr_cli.stages import agreement, logprob, rollout, room, task_prompts, train_step
from rlvr_cli.storage import disk
from rlvr_cli.storage.images import Images
from rlvr_cli.storage.shards import Shards

_PROMPT_TOKENS = 512  # assumed where no prompts are named
_PROMPTS = 10
_TIGHT = 0.9
_TEXTS = [
    "What is 17 + 25?", "The capital of France is", "def add(a, b):", "Once upon a time",
    "3 * 4 =", "A triangle has", "List three colours:", "Solve x + 2 = 5.", "The sky is", "57=",
]  # fmt: skip


def examine(
    policy: Policy, config: RunConfig, *, size: int = 1, device: Device | None = None
) -> Iterator[Finding]:
    """What each phase of such a run needs, on each of `size` devices."""
    device = device or devices.here()
    sampling, longest, given = config.rollout, _PROMPT_TOKENS, config.train.prompts
    images = None
    if given:
        prompts = Shards.open(Path(given), "prompts")
        tables = questions.parts_with_raw(prompts)
        images = Images.of(prompts)
        longest = rollout.longest_prompt(policy, tables, sampling, images)
    shape = shape_of(policy, config.train_step, images=images is not None)
    objective = objectives.build(config.train.algo)
    train = config.train_step
    yield Finding(
        "ok",
        "model",
        f"{shape.parameters / 1e6:,.1f} million parameters, {shape.trained / 1e6:,.1f} million "
        f"trained; prompts of {longest} tokens{'' if given else ' assumed'}, "
        f"{config.rollout.max_new_tokens} new tokens, {train.micro_batch_tokens:,} per micro-batch",
        "" if given else "name the prompts with --prompts",
    )
    reference = bool(config.train.eval_every) or bool(logprob.reference_columns(objective.needs))
    requirements = phases.run(shape, config, device, prompt=longest, reference=reference, size=size)
    for requirement in requirements:
        yield _requirement(requirement, device)
    yield _disk(policy, config)


def _disk(policy: Policy, config: RunConfig) -> Finding:
    """The space that the checkpoints of such a run take, in the default place."""
    here, run = Path("runs"), config.train
    needs, free = room.of_run(config, policy), disk.free(here)
    saves = room.saves(run, range(1, run.steps + 1), adapters=config.train_step.lora_rank > 0)
    peak = needs.peak(saves)
    known = "unknown" if free is None else f"{disk.gb(free)} free"
    text = (
        f"needs {disk.gb(peak)} of {known} for checkpoints: at most "
        f"{min(saves, needs.complete)} at once, {disk.gb(needs.checkpoint)} each"
    )
    if free is not None and peak > free:
        hint = "free some, keep fewer with --keep, or name a larger disk with --out"
        return Finding("note", "disk", text, hint)
    return Finding("ok", "disk", text)


def _requirement(requirement: phases.Requirement, device: Device) -> Finding:
    listed = ", ".join(f"{name} {gib(value)}" for name, value in requirement.parts.items())
    text = f"needs {gib(requirement.total)} of {gib(device.free)} free: {listed}"
    if requirement.total > device.free:
        hint = f"set {requirement.remedy}" if requirement.remedy else phases.NOTHING_FITS
        return Finding("problem", requirement.phase, text, hint)
    if requirement.total > _TIGHT * device.free:
        return Finding("note", requirement.phase, f"{text}: tight", "leave a tenth of it free")
    return Finding("ok", requirement.phase, text)


def agree(policy: Policy, config: RunConfig) -> Iterator[Finding]:
    """The gaps between the log-probs of sampler and trainer on ten completions of 32 tokens."""
    loaded = policies.load(policy)
    trainer = train_step.trainer(loaded, config.train_step, config.train.seed)
    spec = config.rollout.engine
    sampler = registry.build("rollout", spec)(policy, loaded, config.train_step.lora_rank)
    dtype = str(loaded.model.dtype).removeprefix("torch.")
    if sampler.needs_weight_sync:
        sampler.sync_weights(trainer, policy)
        dtype = sampler.dtype
    elif getattr(sampler, "coded", False):
        dtype = "int8"
    gaps = agreement.measure(sampler, trainer, list(_prompts(policy, config)), max_new_tokens=32)
    text = (
        f"sampler and trainer differ by {gaps.mean:.2g} nats per token on average, "
        f"{gaps.largest:.2g} at most; {gaps.outside:.1%} of {gaps.tokens} tokens have "
        "a ratio outside 1 +- 0.1"
    )
    try:
        agreement.check(gaps, dtype)
    except UserError:
        hint = (
            "try --engine vllm:float32_head=true or vllm:dtype=float32, and --trainer "
            "local:precision=float32; go on only if one of them closes the gap"
        )
        yield Finding("problem", "log-probs", f"{text}: more than {dtype} explains", hint)
        return
    if gaps.outside > 0.05:
        hint = "correct for it with `+is-correction`, or use --engine vllm:float32_head=true"
        yield Finding("note", "log-probs", text, hint)
        return
    yield Finding("ok", "log-probs", text)


def _prompts(policy: Policy, config: RunConfig) -> Iterator[agreement.Prompt]:
    """Ten prompts: the first to train on, or plain ones of our own."""
    given = task_prompts.directory(config.train.prompts)
    if given is None:
        tokenizer = tokenizers.load(policy)
        yield from (([*tokenizer(text)["input_ids"]], ()) for text in _TEXTS)
        return
    prompts = Shards.open(given, "prompts")
    rows = questions.with_raw(prompts, range(min(_PROMPTS, prompts.rows)))
    encoder, images = chat.encoder(policy, config.rollout), Images.of(prompts)
    for row in rows.to_pylist():
        name = row["prompt_id"]
        own = images.of_prompt(name) if images else ()
        yield encoder.encode(name, row["messages"], raw=row["raw"], images=own), own

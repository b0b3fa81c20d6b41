"""The stage that samples completions of prompts."""

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli import config, registry
from rlvr_cli.config import RolloutOptions
from rlvr_cli.memory_estimate import phases
from rlvr_cli.memory_estimate.model_size import shape_of
from rlvr_cli.models import (
    chat,
    engine_choice,
    policy as policies,
    prompt_options,
    stops,
)
from rlvr_cli.models.policy import Policy
from rlvr_cli.protocols import RolloutEngine, SamplingParams
from rlvr_cli.runtime import device, seeds
from rlvr_cli.stages import dynamic, prompt_rewards, rollout_options, row_images, sampling
from rlvr_cli.stages.score import Verification
from rlvr_cli.stages.selection import Selection
from rlvr_cli.storage import writer
from rlvr_cli.storage.begun import begun_with
from rlvr_cli.storage.images import Images
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import Shards
from rlvr_cli.storage.share import ALL_PARTS, Share
from rlvr_cli.storage.writer import OnPart, write_shards, write_shards_streaming
from rlvr_cli.verification.scoring import rewards

_OF_DLC = ("memory_model", "mu", "dlc_min_prob")


def run(
    prompts: Shards,
    out: Path,
    policy: Policy,
    options: RolloutOptions,
    selection: Selection = Selection(),
    memory: Policy | None = None,
    *,
    engine: Callable[[], RolloutEngine] | None = None,
    verification: Verification = Verification(),
    share: Share = ALL_PARTS,
    on_part: OnPart = lambda index, state: None,
) -> Shards | None:
    """A rollouts directory: `num_generations` completions of each selected prompt, in groups.

    With a `memory`, which is the model that `options.memory_model` names, they are sampled from the
    policy less `options.mu` times it (DLC), and each token has the log-prob of the policy too.

    `engine` is called once, for the first part that is missing; by default the policy is loaded
    into the engine that the options name. With `max_draws` above 1 the groups are the first so
    many, of the selection and of further draws, whose rewards differ by `verification`.
    """
    as_before = _is_as_before(out)
    options, chosen, plan = _planned(prompts, out, policy, options, selection, memory, share)
    memory = memory if options.mu else None
    images = Images.of(prompts)
    engine = functools.cache(engine or (lambda: load(policy, options, chosen, memory, images)))
    if options.max_draws > 1:
        verification = _settled(verification, prompts, out)
        plan = dynamic.with_verification(plan, verification)
        drawn = _drawing(prompts, out, policy, options, selection, memory, engine, verification)
        size = options.prompts_per_part * options.num_generations
        return _write_drawn(drawn, size, out, plan, on_part)
    row_seed = functools.partial(seeds.row_seed, selection.seed, selection.step)
    maker = sampling.Maker(
        out,
        chosen.to_pylist(),
        policy,
        options,
        _sampling(options, memory),
        row_seed,
        engine,
        plan.fingerprint,
        as_before=as_before,
        images=images,
    )
    return write_shards_streaming(
        out,
        plan,
        maker.parts,
        share=share,
        summarise=summarise,
        on_part=on_part,
    )


def begin(
    prompts: Shards,
    out: Path,
    policy: Policy,
    options: RolloutOptions,
    selection: Selection = Selection(),
) -> None:
    """Settles, unless it is settled, from which policy a directory is sampled; samples nothing."""
    _, _, plan = _planned(prompts, out, policy, options, selection, None, ALL_PARTS)
    writer.begin(out, plan)


def _is_as_before(out: Path) -> bool:
    """Whether a directory was begun by a version that put prompts otherwise."""
    begun = begun_with(out)
    return bool(begun) and "chat" not in begun


def _planned(
    prompts: Shards,
    out: Path,
    policy: Policy,
    options: RolloutOptions,
    selection: Selection,
    memory: Policy | None,
    share: Share,
) -> tuple[RolloutOptions, pa.Table, Plan]:
    """The options as they take effect, the selected prompts, and what decides the directory."""
    options, stored = prompt_options.resolved(options), begun_with(out).get("engine")
    if stored and options.engine == engine_choice.AUTO:
        options = replace(options, engine=stored)
    has_images = row_images.has_images(prompts)
    name, _ = engine_choice.resolve(options.engine, policy, images=has_images)
    options = replace(options, engine=registry.canonical("rollout", name, stored))
    rollout_options.check(options, selection, share)
    row_images.check(prompts, policy, options)
    chosen = selection.rows(prompts)
    parts = max(1, -(-chosen.num_rows // options.prompts_per_part))
    memory = memory if options.mu else None
    return options, chosen, _plan(prompts, out, policy, options, selection, memory, parts)


def _plan(
    prompts: Shards,
    out: Path,
    policy: Policy,
    options: RolloutOptions,
    selection: Selection,
    memory: Policy | None,
    parts: int,
) -> Plan:
    paths = {} if policy.is_served else {"policy": policy.named_from(out)}
    engine, _ = registry.parse("rollout", options.engine)
    return Plan(
        kind="rollouts",
        stage="rollout",
        params={**_params(options, memory), **vars(selection), "policy": policy.digest},
        earlier=config.earlier(RolloutOptions),
        specs={"engine": _engine_identity},
        optional=_OF_DLC,
        behaviour={f"engine `{engine}`": registry.version("rollout", engine)},
        parents={"prompts": prompts},
        parts=parts,
        paths=paths | ({"memory_model": memory.named_from(out)} if memory else {}),
        only=sampling.WITH_POLICY_LOGP if memory else None,
        unknowns=policy.is_served,
    )


def _engine_identity(spec: str) -> str:
    """The spec of an engine in full, without what decides no completion."""
    return registry.identity("rollout", registry.canonical("rollout", spec, spec))


def load(
    policy: Policy,
    options: RolloutOptions,
    prompts: pa.Table,
    memory_model: Policy | None,
    images: Images | None = None,
) -> RolloutEngine:
    """The policy in an engine of its own, if there is memory for it; with a memory model."""
    if policy.is_served:
        engine: RolloutEngine = registry.build("rollout", options.engine)(policy)
        return engine
    accelerator = device.here()
    if memory_model:
        reserved_bytes = phases.memory_model_bytes(
            shape_of(memory_model), accelerator, trained=False
        )
        accelerator = replace(accelerator, free=accelerator.free - reserved_bytes)
    estimate = phases.rollout(
        shape_of(policy, images=images is not None),
        options,
        accelerator,
        prompt=longest_prompt(policy, [prompts], options, images),
        requests=prompts.num_rows * options.num_generations,
    )
    phases.require(policy, estimate, accelerator)
    extra_models = (
        {"memory_model": policies.load(memory_model, frozen=True)} if memory_model else {}
    )
    engine = registry.build("rollout", options.engine)(policy, **extra_models)
    return engine


def longest_prompt(
    policy: Policy,
    prompts: Iterable[pa.Table],
    options: RolloutOptions,
    images: Images | None = None,
) -> int:
    """The tokens of the prompt with most characters, within the policy's context.

    With `images` also those of the one with most pixels.
    """
    most, pixels = (-1, dict[str, Any]()), (0, dict[str, Any]())
    for table in prompts:
        lengths = pc.utf8_length(table["messages"])
        if (length := pc.max(lengths).as_py() or 0) > most[0] and table.num_rows:
            place = pc.index(lengths, length).as_py()
            most = (length, table.slice(place, 1).to_pylist()[0])
        names = table["prompt_id"].to_pylist()
        for place, count in enumerate(map(images.pixels_of, names) if images else ()):
            if count > pixels[0]:
                pixels = (count, table.slice(place, 1).to_pylist()[0])
    chosen = [prompt for _, prompt in (most, pixels) if prompt]
    if not chosen:
        return 0
    encoder = chat.encoder(policy, options)
    context = policies.context_length(policy)
    return min(context, max(len(_ids(encoder, prompt, images)) for prompt in chosen))


def _ids(encoder: chat.Encoder, prompt: dict[str, Any], images: Images | None) -> list[int]:
    name, raw = prompt["prompt_id"], prompt.get("raw") or False
    own = images.of_prompt(name) if images else ()
    return encoder.encode(name, prompt["messages"], raw=raw, images=own)


def _settled(verification: Verification, prompts: Shards, out: Path) -> Verification:
    """How the draws of a directory are verified; an error where they cannot be."""
    settled = dynamic.settled(verification, out)
    golds = prompt_rewards.check(prompts, verifier=settled.verifier, allow_code=settled.allow_code)
    rewards.require_services(golds.parts)
    return settled


def _write_drawn(
    drawn: Callable[[], dynamic.Drawn], size: int, out: Path, plan: Plan, on_part: OnPart
) -> Shards | None:
    """The directory of the drawn groups, in parts of `size` completions."""
    return write_shards(
        out,
        plan,
        lambda index: drawn().rows.slice(index * size, size),
        summarise=lambda rollouts: summarise(rollouts) | drawn().facts,
        on_part=on_part,
    )


def _drawing(
    prompts: Shards,
    out: Path,
    policy: Policy,
    options: RolloutOptions,
    selection: Selection,
    memory: Policy | None,
    engine: Callable[[], RolloutEngine],
    verification: Verification,
) -> Callable[[], dynamic.Drawn]:
    """Draws, when it is first called, until enough groups are mixed; then knows them."""
    wanted = selection.prompts_per_step
    assert wanted, "check() refuses draws without it"
    available = min(prompts.rows, selection.limit or prompts.rows)
    most = min(options.max_draws, -(-available // wanted))

    def sample(draw: int, where: Path) -> Shards:
        once, these = replace(options, max_draws=1), replace(selection, draw=draw)
        drawn = run(prompts, where, policy, once, these, memory=memory, engine=engine)
        assert drawn is not None, "all parts are of this share"
        return drawn

    return functools.cache(
        lambda: dynamic.draw(sample, verification.run, out, wanted=wanted, most=most)
    )


def _params(options: RolloutOptions, memory: Policy | None) -> dict[str, Any]:
    """What decides the samples; a memory by its content, and nothing of DLC without one."""
    params = {**vars(options), "engine": registry.identity("rollout", options.engine)}
    if memory:
        return params | {"memory_model": memory.digest}
    return {name: value for name, value in params.items() if name not in _OF_DLC}


def _sampling(options: RolloutOptions, memory: Policy | None) -> SamplingParams:
    of_dlc = (options.mu, options.dlc_min_prob) if memory else (0.0, 0.0)
    return SamplingParams(
        options.max_new_tokens,
        options.temperature,
        options.top_p,
        options.top_k,
        *of_dlc,
        stop=stops.read(options.stop),
    )


def summarise(rollouts: Shards) -> dict[str, Any]:
    """Counts of a rollouts directory, and the mean surprise of its tokens as their entropy.

    Neither tokens nor surprise are known where completions came as text.
    """
    counts = {"prompts": 0, "completions": 0, "tokens": 0, "cut": 0, "skipped": 0}
    surprise, texts = 0.0, 0
    for table in rollouts.parts():
        lengths = pc.list_value_length(table["token_ids"])
        texts += table["token_ids"].null_count
        counts["prompts"] += len(table["prompt_id"].unique())
        counts["completions"] += table.num_rows
        counts["tokens"] += pc.sum(lengths).as_py() or 0
        counts["cut"] += pc.sum(pc.equal(table["finish_reason"], "length")).as_py() or 0
        counts["skipped"] += pc.sum(pc.equal(table["finish_reason"], "abort")).as_py() or 0
        surprise -= pc.sum(pc.list_flatten(table["behaviour_logp"])).as_py() or 0.0
    if texts:
        return {**counts, "tokens": None, "nats_a_token": None}
    return {**counts, "nats_a_token": surprise / max(counts["tokens"], 1)}

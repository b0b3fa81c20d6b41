"""The stage that samples completions of prompts."""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli import config, registry
from rlvr_cli.config import RolloutOptions
from rlvr_cli.errors import UsageError
from rlvr_cli.memory_estimate import phases
from rlvr_cli.memory_estimate.model_size import shape_of
from rlvr_cli.models import (
    chat,
    engine_choice,
    memory_model as memory_models,
    policy as policies,
    prompt_options,
    stops,
)
from rlvr_cli.models.policy import Policy
from rlvr_cli.models.served import ServedEncoder
from rlvr_cli.protocols import RolloutEngine, SamplingParams
from rlvr_cli.runtime import device, seeds
from rlvr_cli.stages import dynamic, prompt_rewards, sampling
from rlvr_cli.stages.score import Verification
from rlvr_cli.storage import rows, writer
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.rows import Rows
from rlvr_cli.storage.shards import ALL_PARTS, MANIFEST, Shards, Share, begun_with
from rlvr_cli.storage.writer import OnPart, write_shards, write_shards_streaming
from rlvr_cli.verification.scoring import rewards

_OF_DLC = ("memory_model", "mu", "dlc_min_prob")
_SUMMARY = "{completions} completions, {tokens} tokens, {cut} cut at the limit, {skipped} skipped"
_OF_TEXT = "{completions} completions, {cut} cut at the limit, {skipped} skipped"
_OF_DRAWS = ", {prompts} of {wanted} groups, from {drawn} in {draws} draws"
_MANY_CUT = 0.1  # of the completions


@dataclass(frozen=True)
class Selection:
    """Which prompts a rollout takes, and the seed of its rows.

    With `prompts_per_step` it takes those of one step: each epoch shuffles the prompts by the
    hash of seed, epoch and id, and cuts them into steps; the remainder sits this epoch out.
    A further draw takes the next so many of all other prompts, shuffled anew for each step.
    """

    seed: int = 0
    step: int = 0
    prompts_per_step: int | None = None
    limit: int | None = None
    draw: int = 0

    def of(self, prompts: Shards) -> np.ndarray:
        """The numbers of the prompts, in order; the ids are shuffled once an epoch."""
        count = min(prompts.rows, prompts.rows if self.limit is None else self.limit)
        size = self.prompts_per_step
        if size is None:
            return np.arange(count)
        if size > count:
            raise UsageError(
                f"a step of {size} prompts was asked for of {count}",
                f"use --prompts-per-step {max(1, count)}",
            )
        epoch, offset = divmod(max(self.step, 1) - 1, count // size)
        ids, start = rows.of(prompts), offset * size
        shuffled_N = _shuffled(ids, count, "order", self.seed, epoch)
        if not self.draw:
            return shuffled_N[start : start + size]
        anew_N = _shuffled(ids, count, "draw", self.seed, self.step)
        others_N = anew_N[~np.isin(anew_N, shuffled_N[start : start + size])]
        return others_N[(self.draw - 1) * size : self.draw * size]


@functools.lru_cache(maxsize=2)
def _shuffled(ids: Rows, count: int, *parts: int | str) -> np.ndarray:
    """The numbers of the first rows in the order of the seeds that these parts give their ids."""
    seed_of = seeds.deriving(*parts)
    names = (name for chunk in ids.ids[:count].chunks for name in chunk.to_pylist())
    return np.argsort(np.fromiter(map(seed_of, names), np.int64, count), kind="stable")


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
    engine = functools.cache(engine or (lambda: load(policy, options, chosen, memory)))
    size = options.prompts_per_part
    if options.max_draws > 1:
        verification = dynamic.settled(verification, out)
        plan = dynamic.with_verification(plan, verification)
        golds = prompt_rewards.check(
            prompts, verifier=verification.verifier, allow_code=verification.allow_code
        )
        rewards.require_services(golds.parts)
        drawn = _drawing(prompts, out, policy, options, selection, memory, engine, verification)
        group = size * options.num_generations
        return write_shards(
            out,
            plan,
            lambda index: drawn().rows.slice(index * group, group),
            summarise=lambda rollouts: summarise(rollouts) | drawn().facts,
            on_part=on_part,
        )
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
    name, _ = engine_choice.resolve(options.engine, policy)
    options = replace(options, engine=registry.canonical("rollout", name, stored))
    check(options, selection, share)
    chosen = _chosen(prompts, selection)
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
    policy: Policy, options: RolloutOptions, prompts: pa.Table, memory_model: Policy | None
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
        shape_of(policy),
        options,
        accelerator,
        prompt=longest_prompt(policy, [prompts], options),
        requests=prompts.num_rows * options.num_generations,
    )
    phases.require(policy, estimate, accelerator)
    extra_models = (
        {"memory_model": policies.load(memory_model, frozen=True)} if memory_model else {}
    )
    engine = registry.build("rollout", options.engine)(policy, **extra_models)
    return engine


def longest_prompt(policy: Policy, prompts: Iterable[pa.Table], options: RolloutOptions) -> int:
    """The tokens of the prompt with most characters, within the policy's context."""
    most, prompt = -1, {}
    for table in prompts:
        lengths = pc.utf8_length(table["messages"])
        if (length := pc.max(lengths).as_py() or 0) > most and table.num_rows:
            most, prompt = length, table.slice(pc.index(lengths, length).as_py(), 1).to_pylist()[0]
    if not prompt:
        return 0
    encoder = chat.Encoder(policies.load_tokenizer(policy), options)
    raw = prompt.get("raw") or False
    token_ids = encoder.encode(prompt["prompt_id"], prompt["messages"], raw=raw)
    return min(len(token_ids), policies.context_length(policy))


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


def check(
    options: RolloutOptions, selection: Selection = Selection(), share: Share = ALL_PARTS
) -> None:
    """Refuses options that make no sense together."""
    if options.temperature == 0 and options.num_generations > 1:
        raise UsageError(
            f"temperature 0 gives {options.num_generations} times the same completion",
            "use `--num-generations 1`, or a temperature above 0",
        )
    if options.engine != engine_choice.AUTO:
        registry.build("rollout", options.engine)
    memory_models.check(options)
    if options.max_draws > 1:
        _check_draws(options, selection, share)


def settle(
    options: RolloutOptions,
    policy: Policy,
    prompts: int,
    shares: int,
    *,
    out: Path | None = None,
    trainer: str = "local",
) -> tuple[RolloutOptions, list[str]]:
    """The options for this machine and so many processes, and what there is to say of them.

    The engine has a name, and of so many prompts each share has a part, if there are enough. An
    `out` that was begun keeps its parts.
    """
    engine, why = engine_choice.resolve(options.engine, policy, trainer)
    said = [f"the engine is {engine}, as graph is not for `{policy.name}`: {why}"] if why else []
    size = options.prompts_per_part
    begun = begun_with(out).get("prompts_per_part") if out else None
    if shares > -(-prompts // size) and size != begun:
        size = max(1, prompts // shares)
        said.append(f"parts of {size} prompts, so that each of {shares} processes has one")
    return replace(options, engine=engine, prompts_per_part=size), said


def conclusion(options: RolloutOptions, rollouts: Shards | None) -> dict[str, Any]:
    """What to say of rollouts that are done, as `console.conclude` takes it."""
    remarks = list(cut(rollouts))
    if options.max_draws > 1:
        return {"text": _SUMMARY + _OF_DRAWS, "remarks": remarks}
    if rollouts is not None and rollouts.summary.get("tokens", 0) is None:
        return {"text": _OF_TEXT, "rate": "completions", "remarks": remarks}
    return {"text": _SUMMARY, "rate": "tokens", "remarks": remarks}


def cut(rollouts: Shards | None, option: str = "--max-new-tokens") -> Iterator[str]:
    """A warning if the limit that `option` sets cut many of the completions."""
    if rollouts is None:
        return
    count, limit = rollouts.summary.get("cut"), rollouts.params.get("max_new_tokens")
    if count is None:  # of imported ones there is no summary
        parts = (rollouts.part(i, ["finish_reason"]) for i in range(len(rollouts)))
        count = sum(part["finish_reason"].to_pylist().count("length") for part in parts)
    if count > _MANY_CUT * max(rollouts.rows, 1):
        at = f"at {limit} tokens" if limit else "at their limit"
        yield (
            f"warning: {count / rollouts.rows:.0%} of `{rollouts.path}` were cut {at}, before "
            f"they could state an answer; {option} allows more"
        )


def prompt_remarks(
    options: RolloutOptions,
    policy: Policy,
    prompts: Shards | None,
    selection: Selection = Selection(),
    *,
    out: Path | None = None,
) -> list[str]:
    """How the prompts are put to the policy; an error if the options do not fit them.

    Without `prompts` they are those of a task. Nothing is said of an `out` that is complete.
    """
    if out and (out / MANIFEST).exists():
        return []
    if policy.is_served:
        served_encoder = ServedEncoder(options)
        if prompts is None:
            return []
        asked = _chosen(prompts, selection)
        return list(served_encoder.remarks(asked["messages"].to_pylist(), asked["raw"].to_pylist()))
    if not prompt_options.given(options) and not policies.has_chat_template(policy):
        if prompts:
            chat.refuse_messages(_chosen(prompts, selection))
        return []  # without a tokenizer, which takes seconds to load
    encoder = chat.Encoder(policies.load_tokenizer(policy), options)
    if prompts is None:
        return list(encoder.remarks(['""'], [True]))
    chosen = _chosen(prompts, selection)
    return list(encoder.remarks(chosen["messages"].to_pylist(), chosen["raw"].to_pylist()))


def described(options: RolloutOptions, policy: Policy) -> str:
    """What is sampled of each prompt."""
    draws = f", in {options.max_draws} draws at most," if options.max_draws > 1 else ""
    return f"{options.num_generations} completions of `{policy.name}`{draws}"


def preview(
    options: RolloutOptions, policy: Policy, prompts: Shards, selection: Selection = Selection()
) -> str:
    """The first selected prompt, exactly as the policy sees it."""
    first = _chosen(prompts, selection).slice(0, 1).to_pylist()
    encoder = (
        ServedEncoder(options)
        if policy.is_served
        else chat.Encoder(policies.load_tokenizer(policy), options)
    )
    return encoder.preview(first[0]) if first else "there is no prompt"


def _check_draws(options: RolloutOptions, selection: Selection, share: Share) -> None:
    given = f"--max-draws is {options.max_draws}"
    if selection.prompts_per_step is None:
        raise UsageError(
            f"{given}, and nothing says how many groups are wanted",
            "say it with --prompts-per-step",
        )
    if share.count > 1:
        raise UsageError(
            f"{given}, and --shard is {share.index}/{share.count}: what is drawn depends on the "
            "rewards of all shares",
            "leave --shard out",
        )
    if options.num_generations == 1:
        raise UsageError(
            f"{given}, and a group of one completion never has different rewards",
            "use --num-generations 2 or more",
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


def _chosen(prompts: Shards, selection: Selection) -> pa.Table:
    return chat.with_raw(prompts, selection.of(prompts))


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

"""The stage that samples completions of prompts."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli import config, registry
from rlvr_cli.config import RolloutOptions
from rlvr_cli.errors import UsageError
from rlvr_cli.memory_estimate import phases
from rlvr_cli.memory_estimate.model_size import shape_of
from rlvr_cli.models import memory_model as memory_models, policy as policies
from rlvr_cli.models.policy import Policy
from rlvr_cli.protocols import RolloutEngine, SamplingParams
from rlvr_cli.runtime import device, seeds
from rlvr_cli.stages import dynamic, prompt_rewards, sampling
from rlvr_cli.stages.score import Verification
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import ALL_PARTS, Shards, Share, begun_with
from rlvr_cli.storage.writer import OnPart, write_shards, write_shards_streaming

_OF_DLC = ("memory_model", "mu", "dlc_min_prob")


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

    def of(self, prompt_ids: list[str]) -> list[int]:
        indices = list(range(len(prompt_ids)))[: self.limit]
        if self.prompts_per_step is None:
            return indices
        steps = len(indices) // self.prompts_per_step
        if not steps:
            raise UsageError(
                f"a step of {self.prompts_per_step} prompts was asked for of {len(indices)}",
                f"use --prompts-per-step {max(1, len(indices))}",
            )
        epoch, offset = divmod(max(self.step, 1) - 1, steps)
        indices.sort(key=lambda i: seeds.derive("order", self.seed, epoch, prompt_ids[i]))
        size, start = self.prompts_per_step, offset * self.prompts_per_step
        if not self.draw:
            return indices[start : start + size]
        others = indices[:start] + indices[start + size :]
        others.sort(key=lambda i: seeds.derive("draw", self.seed, self.step, prompt_ids[i]))
        return others[(self.draw - 1) * size : self.draw * size]


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
    stored = begun_with(out).get("engine")
    options = replace(options, engine=registry.canonical("rollout", options.engine, stored))
    check(options, selection, share)
    chosen = _chosen(prompts, selection)
    memory = memory if options.mu else None
    engine = functools.cache(engine or (lambda: _load(policy, options, chosen, memory)))
    size = options.prompts_per_part
    parts = max(1, -(-chosen.num_rows // size))
    plan = _plan(prompts, out, policy, options, selection, memory, parts)
    if options.max_draws > 1:
        verification = dynamic.settled(verification, out)
        plan = dynamic.with_verification(plan, verification)
        prompt_rewards.check(
            prompts, verifier=verification.verifier, allow_code=verification.allow_code
        )
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
        share,
    )
    return write_shards_streaming(
        out,
        plan,
        maker.parts,
        share=share,
        summarise=summarise,
        on_part=on_part,
    )


def _plan(
    prompts: Shards,
    out: Path,
    policy: Policy,
    options: RolloutOptions,
    selection: Selection,
    memory: Policy | None,
    parts: int,
) -> Plan:
    paths = {"policy": policy.named_from(out)}
    engine, _ = registry.parse("rollout", options.engine)
    return Plan(
        kind="rollouts",
        stage="rollout",
        params={**_params(options, memory), **vars(selection), "policy": policy.digest},
        earlier=config.earlier(RolloutOptions),
        specs={"engine": lambda spec: registry.canonical("rollout", spec, spec)},
        optional=_OF_DLC,
        behaviour={f"engine `{engine}`": registry.version("rollout", engine)},
        parents={"prompts": prompts},
        parts=parts,
        paths=paths | ({"memory_model": memory.named_from(out)} if memory else {}),
        only=sampling.WITH_POLICY_LOGP if memory else None,
    )


def _load(
    policy: Policy, options: RolloutOptions, prompts: pa.Table, memory_model: Policy | None
) -> RolloutEngine:
    """The policy in an engine of its own, if there is memory for it; with a memory model."""
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
        prompt=longest_prompt(policy, prompts["messages"]),
        requests=prompts.num_rows * options.num_generations,
    )
    phases.require(policy, estimate, accelerator)
    extra_models = (
        {"memory_model": policies.load(memory_model, frozen=True)} if memory_model else {}
    )
    engine: RolloutEngine = registry.build("rollout", options.engine)(policy, **extra_models)
    return engine


def longest_prompt(policy: Policy, messages: pa.ChunkedArray) -> int:
    """The tokens of the prompt with most characters, within the policy's context."""
    row = pc.index(lengths := pc.utf8_length(messages), pc.max(lengths)).as_py()
    token_ids = policies.encode_prompt(
        policies.load_tokenizer(policy), f"number {row + 1}", messages[row].as_py()
    )
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
    registry.build("rollout", options.engine)
    memory_models.check(options)
    if options.max_draws > 1:
        _check_draws(options, selection, share)


def remarks(
    options: RolloutOptions, model: str | None, prompts: Shards | None = None
) -> Iterator[str]:
    """What one who asked for this would like to know before it starts."""
    yield from prompt_rewards.remarks(prompts) if prompts else ()
    if model is None:
        yield "no --model given, taking the built-in tiny policy"
    engine, _ = registry.parse("rollout", options.engine)
    if engine == "transformers" and device.here().kind == "cuda":
        yield "on a GPU --engine graph samples several times as fast as transformers"


def _check_draws(options: RolloutOptions, selection: Selection, share: Share) -> None:
    given = f"--max-draws is {options.max_draws}"
    if selection.prompts_per_step is None:
        raise UsageError(
            f"{given}, and nothing says how many groups are wanted",
            "say it with --prompts-per-step",
        )
    if share != ALL_PARTS:
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
    params = dict(vars(options))
    if memory:
        return params | {"memory_model": memory.digest}
    return {name: value for name, value in params.items() if name not in _OF_DLC}


def _sampling(options: RolloutOptions, memory: Policy | None) -> SamplingParams:
    of_dlc = (options.mu, options.dlc_min_prob) if memory else ()
    return SamplingParams(
        options.max_new_tokens, options.temperature, options.top_p, options.top_k, *of_dlc
    )


def _chosen(prompts: Shards, selection: Selection) -> pa.Table:
    table = prompts.table().select(["prompt_id", "messages"])
    return table.take(selection.of(table["prompt_id"].to_pylist()))


def summarise(rollouts: Shards) -> dict[str, Any]:
    """Counts of a rollouts directory, and the mean surprise of its tokens as their entropy."""
    counts = {"prompts": 0, "completions": 0, "tokens": 0, "cut": 0, "skipped": 0}
    surprise = 0.0
    for table in rollouts.parts():
        lengths = pc.list_value_length(table["token_ids"])
        counts["prompts"] += len(table["prompt_id"].unique())
        counts["completions"] += table.num_rows
        counts["tokens"] += pc.sum(lengths).as_py() or 0
        counts["cut"] += pc.sum(pc.equal(table["finish_reason"], "length")).as_py() or 0
        counts["skipped"] += pc.sum(pc.equal(table["finish_reason"], "abort")).as_py() or 0
        surprise -= pc.sum(pc.list_flatten(table["behaviour_logp"])).as_py() or 0.0
    return {**counts, "nats_a_token": surprise / max(counts["tokens"], 1)}

"""The stage that samples completions of prompts."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli import lookup, schema, seeds
from rlvr_cli import policy as policies
from rlvr_cli.config import RolloutOptions
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.fill import OnPart, fill
from rlvr_cli.policy import Policy
from rlvr_cli.protocols import Completion, Request, RolloutEngine, SamplingParams
from rlvr_cli.shards import WHOLE, Plan, Shards, Share
from rlvr_cli.stages import dynamic


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
    *,
    engine: Callable[[], RolloutEngine] | None = None,
    share: Share = WHOLE,
    on_part: OnPart = lambda index, state: None,
) -> Shards | None:
    """A rollouts directory: `num_generations` completions of each selected prompt, in groups.

    `engine` is called once, when the first part is to be made; by default the policy is loaded
    into the engine that the options name. With `max_draws` above 1 the groups are the first so
    many, of the selection and of further draws, whose rewards differ.
    """
    check(options, selection, share)
    engine = functools.cache(engine or (lambda: lookup.build("rollout", options.engine)(policy)))
    chosen = _chosen(prompts, selection)
    size = options.prompts_per_part
    plan = Plan(
        kind="rollouts",
        stage="rollout",
        params={**_params(options), **vars(selection), "policy": policy.digest},
        parents={"prompts": prompts},
        parts=max(1, -(-chosen.num_rows // size)),
        paths={"policy": policy.named_from(out)},
    )
    if options.max_draws > 1:
        drawn = _drawing(prompts, out, policy, options, selection, engine)
        group = size * options.num_generations
        return fill(
            out,
            plan,
            lambda index: drawn().rows.slice(index * group, group),
            summarise=lambda rollouts: summarise(rollouts) | drawn().facts,
            on_part=on_part,
        )
    maker = _Maker(policy, options, selection, engine)
    return fill(
        out,
        plan,
        lambda index: maker.part(chosen.slice(index * size, size).to_pylist()),
        share=share,
        summarise=summarise,
        on_part=on_part,
    )


def _drawing(
    prompts: Shards,
    out: Path,
    policy: Policy,
    options: RolloutOptions,
    selection: Selection,
    engine: Callable[[], RolloutEngine],
) -> Callable[[], dynamic.Drawn]:
    """Draws, when it is first called, until enough groups are mixed; then knows them."""
    wanted = selection.prompts_per_step
    assert wanted, "check() refuses draws without it"
    available = min(prompts.rows, selection.limit or prompts.rows)
    most = min(options.max_draws, -(-available // wanted))

    def sample(draw: int, where: Path) -> Shards:
        once, these = replace(options, max_draws=1), replace(selection, draw=draw)
        made = run(prompts, where, policy, once, these, engine=engine)
        assert made is not None, "all parts are of this share"
        return made

    return functools.cache(lambda: dynamic.draw(sample, out, wanted=wanted, most=most))


def check(
    options: RolloutOptions, selection: Selection = Selection(), share: Share = WHOLE
) -> None:
    """Refuses options that make no sense together."""
    if options.temperature == 0 and options.num_generations > 1:
        raise UsageError(
            f"temperature 0 gives {options.num_generations} times the same completion",
            "use `--num-generations 1`, or a temperature above 0",
        )
    lookup.build("rollout", options.engine)
    if options.max_draws > 1:
        _check_draws(options, selection, share)


def _check_draws(options: RolloutOptions, selection: Selection, share: Share) -> None:
    given = f"--max-draws is {options.max_draws}"
    if selection.prompts_per_step is None:
        raise UsageError(
            f"{given}, and nothing says how many groups are wanted",
            "say it with --prompts-per-step",
        )
    if share != WHOLE:
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


def _params(options: RolloutOptions) -> dict[str, Any]:
    return {**vars(options), "engine": lookup.canonical("rollout", options.engine)}


def _chosen(prompts: Shards, selection: Selection) -> pa.Table:
    table = prompts.table().select(["prompt_id", "messages"])
    return table.take(selection.of(table["prompt_id"].to_pylist()))


class _Maker:
    """Makes parts; loads the policy when the first one is needed."""

    def __init__(
        self,
        policy: Policy,
        options: RolloutOptions,
        selection: Selection,
        engine: Callable[[], RolloutEngine],
    ) -> None:
        self._policy, self._options, self._selection = policy, options, selection
        self._make_engine = engine
        self._engine: RolloutEngine | None = None
        self._tokenizer: Any = None

    def part(self, prompts: list[dict[str, str]]) -> pa.Table:
        options = self._options
        if self._engine is None:
            self._tokenizer = policies.load_tokenizer(self._policy)
            self._engine = self._make_engine()
        room = policies.context_length(self._policy) - options.max_new_tokens
        encoded = [_encode(self._tokenizer, prompt, room, options.overlong) for prompt in prompts]
        keys = [
            (prompt["prompt_id"], sample, token_ids, status)
            for prompt, (token_ids, status) in zip(prompts, encoded, strict=True)
            for sample in range(options.num_generations)
        ]
        seeds_N = [
            seeds.row_seed(self._selection.seed, self._selection.step, prompt_id, sample)
            for prompt_id, sample, _, _ in keys
        ]
        requests = [
            Request(token_ids, seed)
            for (_, _, token_ids, status), seed in zip(keys, seeds_N, strict=True)
            if status != "prompt_too_long"
        ]
        sampling = SamplingParams(
            options.max_new_tokens, options.temperature, options.top_p, options.top_k
        )
        sampled = iter(self._engine.generate(requests, sampling) if requests else ())
        aborted = Completion([], [], "abort")
        completions = [
            aborted if status == "prompt_too_long" else next(sampled) for _, _, _, status in keys
        ]
        return self._table(keys, seeds_N, completions)

    def _table(
        self, keys: list[tuple], seeds_N: list[int], completions: list[Completion]
    ) -> pa.Table:
        texts = self._tokenizer.batch_decode(
            [completion.token_ids for completion in completions], skip_special_tokens=True
        )
        columns = {
            "prompt_id": [key[0] for key in keys],
            "sample_index": [key[1] for key in keys],
            "prompt_token_ids": [key[2] for key in keys],
            "completion": texts,
            "token_ids": [completion.token_ids for completion in completions],
            "behaviour_logp": [completion.behaviour_logp for completion in completions],
            "finish_reason": [completion.finish_reason for completion in completions],
            "status": [key[3] for key in keys],
            "seed": seeds_N,
            "policy": [self._policy.digest] * len(keys),
        }
        return pa.table(columns, schema.schema("rollouts"))


def _encode(
    tokenizer: Any, prompt: dict[str, str], room: int, overlong: str
) -> tuple[list[int], str]:
    """The prompt's token ids and its status; a chat template is applied to messages only."""
    token_ids = policies.encode_prompt(tokenizer, prompt["prompt_id"], prompt["messages"])
    if not token_ids:
        raise DataError(f"prompt `{prompt['prompt_id']}` is empty", "remove it from the prompts")
    if len(token_ids) <= room:
        return token_ids, "ok"
    if room < 1:
        raise UsageError(
            f"the new tokens leave room for {max(room, 0)} prompt tokens in the policy's context",
            f"lower --max-new-tokens by {1 - room} or more",
        )
    if overlong == "error":
        raise DataError(
            f"prompt `{prompt['prompt_id']}` has {len(token_ids)} tokens, the policy's context "
            f"leaves room for {room}",
            "use `--overlong skip` or `--overlong truncate`, or fewer --max-new-tokens",
        )
    if overlong == "skip":
        return token_ids, "prompt_too_long"
    return token_ids[-room:], "prompt_truncated"


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

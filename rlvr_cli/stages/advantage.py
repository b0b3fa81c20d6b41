"""The stage that turns the rewards of complete groups into advantages."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.algorithms import objective as objectives
from rlvr_cli.algorithms.objective import Objective, Part, Step
from rlvr_cli.errors import DataError
from rlvr_cli.runtime.later import torch
from rlvr_cli.stages import advantage_checks, common, completion_kl
from rlvr_cli.storage import schema
from rlvr_cli.storage.begun import begun_with
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import Shards
from rlvr_cli.storage.share import ALL_PARTS, Share
from rlvr_cli.storage.writer import OnPart, write_shards
from rlvr_cli.verification.scoring import rewards


def run(
    scores: Shards,
    out: Path,
    *,
    algo: str,
    rollouts: Path | None = None,
    allow_singletons: bool = False,
    drop_uninformative: bool = False,
    merge: bool = False,
    logprobs: Path | None = None,
    share: Share = ALL_PARTS,
    on_part: OnPart = lambda index, state: None,
) -> Shards | None:
    """An advantages directory by the estimator of `algo`, which it records for train-step.

    Statistics may span the full rollout batch, so the rewards of all rows are held. A row without a
    reward gets a null advantage and is not kept; with `drop_uninformative` neither is a group
    whose rewards are all equal. A group is the completions of a prompt in one input, or with
    `merge` in all of them. An estimator that needs log-probs has those of `logprobs`, by default
    next to the scores.
    """
    spec = objectives.canonical(algo, begun_with(out).get("algo"))
    objective = objectives.build(spec)
    table: pa.Table | None = None
    sampled = scores.parent("rollouts", rollouts)
    longest = advantage_checks.require_longest(objective, sampled)
    if longest:
        advantage_checks.check_length(objective, longest)
    if merge:
        advantage_checks.require_one_prompt(sampled)
    known = completion_kl.logprobs(objective, scores, sampled, logprobs)
    starts = np.cumsum([0] + [part["rows"] for part in scores.manifest["parts"]])

    def make(index: int) -> pa.Table:
        nonlocal table
        if table is None:
            table = _estimate(
                objective, scores, sampled, known, merge, allow_singletons, drop_uninformative
            )
        part = table.slice(starts[index], starts[index + 1] - starts[index])
        return common.add_input(part, sampled, index)

    params = {
        "algo": spec,
        "allow_singletons": allow_singletons,
        "drop_uninformative": drop_uninformative,
        **({"merge": True} if merge else {}),
    }
    parents = {"scores": scores} | ({"logprobs": known} if known else {})
    only = common.only_with_input("advantages", sampled)
    plan = _plan(params, parents, len(scores), objective.columns, only)
    return write_shards(out, plan, make, share=share, summarise=summarise, on_part=on_part)


def _plan(
    params: dict[str, Any],
    parents: dict[str, Shards],
    parts: int,
    extra: tuple[str, ...],
    only: tuple[str, ...] | None,
) -> Plan:
    return Plan(
        "advantages",
        "advantage",
        params,
        parents,
        parts,
        extra=extra,
        only=only,
        specs={"algo": lambda stored: objectives.canonical(stored, stored)},
        optional=("merge",),
        behaviour=objectives.versions(params["algo"]),
    )


def _estimate(
    objective: Objective,
    scores: Shards,
    rollouts: Shards,
    logprobs: Shards | None,
    merge: bool,
    allow_singletons: bool,
    drop_uninformative: bool,
) -> pa.Table:
    """The advantages of all rows of the scores, in their order."""
    columns, step = _read(objective, scores, rollouts, logprobs, merge)
    prompt_ids = columns["prompt_id"]
    advantage_checks.check_rewards(objective, step, prompt_ids, scores, allow_singletons)
    with _one_thread():
        estimates = objectives.advantages(objective, step)
    constant_N = estimates.pop("constant")
    keep_N = estimates.pop("keep")
    if drop_uninformative:
        keep_N = keep_N & ~constant_N
    wanted = schema.schema("advantages", objective.columns)
    return pa.table(
        {
            **{name: columns[name] for name in common.KEY},
            **{name: _nullable(value.numpy()) for name, value in estimates.items()},
            "keep": keep_N.numpy(),
        }
    ).select(wanted.names).cast(wanted)  # fmt: skip


def _read(
    objective: Objective, scores: Shards, rollouts: Shards, logprobs: Shards | None, merge: bool
) -> tuple[dict[str, pa.ChunkedArray], Step]:
    """The columns of all rows, and the step that the objective estimates advantages from."""
    weights = _weights(scores) if "parts" in objective.needs else {}
    by_end = "truncated" in objective.needs
    more = ("finish_reason",) if by_end else ()
    columns, length_N = _columns(scores, rollouts, tuple(weights), more)
    code_N = _groups(columns, scores, rollouts, merge=merge)
    reward_N = columns["reward"].to_numpy().astype(np.float64)
    present_N = pc.is_valid(columns["reward"]).to_numpy()
    if "length" in objective.needs and (length_N[present_N] < 0).any():
        raise DataError(
            f"`{rollouts.path}` holds text without token ids, and this objective counts tokens",
            "import it again with `rlvr import --model MODEL`, the policy whose tokens they are",
        )
    length_N = np.maximum(length_N, 0)
    if "correct" in objective.needs:
        advantage_checks.require_correct(columns, present_N, scores)
    correct_N = pc.fill_null(columns["correct"], False).to_numpy()
    return columns, Step(
        reward_N=torch.from_numpy(np.where(present_N, reward_N, 0.0)),
        present_N=torch.from_numpy(present_N),
        correct_N=torch.from_numpy(correct_N.astype(bool)),
        group_N=torch.from_numpy(code_N),
        length_N=torch.from_numpy(length_N),
        max_length=advantage_checks.require_longest(objective, rollouts)
        or int(length_N.max(initial=0)),
        parts=tuple(
            Part(share, torch.from_numpy(columns[name].to_numpy().astype(np.float64)))
            for name, share in weights.items()
        ),
        truncated_N=advantage_checks.truncated(columns, present_N, rollouts) if by_end else None,
        kl_N=torch.from_numpy(completion_kl.sums(logprobs, rollouts)) if logprobs else None,
    )


def _groups(
    columns: dict[str, pa.ChunkedArray], scores: Shards, rollouts: Shards, *, merge: bool
) -> np.ndarray:
    """The number of each row's group; an error unless those of each input are complete."""
    rows_I = [0] * len(rollouts.inputs)
    for index, part in enumerate(scores.manifest["parts"]):
        rows_I[rollouts.input_of(index)] += part["rows"]
    keys: list[tuple[int, str]] = []
    for number, (one, rows) in enumerate(zip(rollouts.inputs, rows_I, strict=True)):
        prompt_ids, sample_N = (columns[name].slice(len(keys), rows) for name in common.KEY)
        names = prompt_ids.to_pylist()
        where = scores if len(rollouts.inputs) == 1 else one
        size = one.params.get("num_generations")
        common.require_complete_groups(
            prompt_ids, common.group_codes(names), sample_N.to_numpy(), size, where
        )
        keys += [(0 if merge else number, name) for name in names]
    return common.group_codes(keys)


def _weights(scores: Shards) -> dict[str, float]:
    """The weight of each reward of a sum by the name of its column; an error if it is none."""
    weights: dict[str, float] | None = None
    for one in scores.inputs:
        spec = one.params.get("verifier")
        own = rewards.weights(str(spec)) if spec else {}
        if len(own) < 2 or weights not in (None, own):
            what = f"the verifier {spec}" if spec else "the verifier of each prompt"
            raise DataError(
                f"`{one.path}` was scored by {what}, and this objective normalises each reward of "
                "one weighted sum on its own",
                "score all with one sum, as in `--verifier 0.9*math+0.1*format`",
            )
        weights = own
    return weights or {}


def _columns(
    scores: Shards, rollouts: Shards, parts: tuple[str, ...], more: tuple[str, ...]
) -> tuple[dict[str, pa.ChunkedArray], np.ndarray]:
    """The key, reward, its parts and verdict of all rows, and the tokens of each completion.

    -1 tokens where they are unknown. And `more` columns of the rollouts, of text.
    """
    names = [*common.KEY, "reward", "correct", *parts, *more]
    chunks: dict[str, list[pa.Array]] = {name: [] for name in names}
    lengths: list[np.ndarray] = []
    for index in range(len(scores)):
        part = common.zip_columns(index, rollouts, scores, only=(*names, "token_ids"))
        for name in names:
            chunks[name] += part[name].chunks
        length = pc.fill_null(pc.list_value_length(part["token_ids"]), -1)
        lengths.append(length.to_numpy().astype(np.int64))
    types = {field.name: field.type for field in schema.schema("scores", parts)}
    types |= dict.fromkeys(more, pa.string())
    return (
        {name: pa.chunked_array(chunks[name], types[name]) for name in names},
        np.concatenate([np.empty(0, np.int64), *lengths]),
    )


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """One torch thread: on short arrays several wait for one another, most of all on busy cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def _nullable(value_N: np.ndarray) -> pa.Array:
    return pa.array(value_N, from_pandas=value_N.dtype.kind == "f")


def summarise(advantages: Shards) -> dict[str, Any]:
    """How many groups carry signal, how many rewards are missing, how many hit a floor.

    A group carries signal if its rewards differ. Of groups whose verifier failed, `one_reward`
    counts those with one left, whose advantage is 0, and `no_reward` those with none.
    """
    groups = informative = missing = kept = floored = one = none = 0
    is_merged = advantages.params.get("merge")
    is_apart = schema.INPUT in advantages.schema.names and not is_merged
    key = ["prompt_id", *([schema.INPUT] if is_apart else [])]
    for table in [advantages.table()] if is_merged else advantages.parts():
        by_group = table.group_by(key).aggregate(
            [("group_std", "max"), ("keep", "any"), ("group_size", "max"), ("prompt_id", "count")]
        )
        left, size = (by_group[n].to_numpy() for n in ("group_size_max", "prompt_id_count"))
        one += int(((left == 1) & (size > 1)).sum())
        none += int((left == 0).sum())
        std = by_group["group_std_max"].to_numpy()
        groups += len(std)
        informative += int((std > 0).sum())
        missing += table["advantage"].null_count
        kept += pc.sum(table["keep"]).as_py() or 0
        if "floored" in table.column_names:
            flags = table.group_by(key).aggregate([("floored", "max")])["floored_max"]
            floored += int(pc.sum(flags).as_py() or 0)
    return {
        "groups": groups,
        "informative": informative,
        "informative_share": informative / groups if groups else None,
        "missing": missing,
        "kept": kept,
        "floored": floored,
        "one_reward": one,
        "no_reward": none,
    }

"""The rows of an update: what it needs is there, of the right rollouts, and finite."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rlvr_cli.algorithms.objective import Objective
from rlvr_cli.config import UpdateOptions
from rlvr_cli.errors import DataError
from rlvr_cli.protocols import Row
from rlvr_cli.stages import common, logprob
from rlvr_cli.storage.manifest import digests
from rlvr_cli.storage.schema import TOP_K
from rlvr_cli.storage.shards import Shards


@dataclass(frozen=True)
class UpdateBatch:
    """The kept rows of an advantages directory, with the prompt of each and the input it is of.

    The rows of one prompt of one input are a group; inputs that were merged count as the first.
    """

    rows: list[Row]
    prompt_ids: list[str]
    inputs: list[int]
    sampler_logp: list[np.ndarray | None]  # the policy's, as the sampler computed them


def read(
    advantages: Shards,
    rollouts: Shards,
    logprobs: Shards | None,
    objective: Objective,
    options: UpdateOptions,
) -> UpdateBatch:
    """The kept rows with the columns that the objective and the old log-probs need."""
    by_sampler = _by_sampler(rollouts)
    old = {"rollout": by_sampler, "stored": "old_logp"}.get(options.old_logprobs)
    needed = logprob.reference_columns(objective.needs) + (
        ("old_logp",) if old == "old_logp" else ()
    )
    _require_logprobs(logprobs, rollouts, needed, objective.top_k)
    sources = [rollouts, advantages] + ([logprobs] if logprobs else [])
    names = [*common.KEY, "prompt_token_ids", "token_ids", "advantage", "behaviour_logp"]
    names += [*needed, *objective.columns] + [by_sampler] * (by_sampler not in names)
    kept: list[list[pa.Table]] = [[] for _ in rollouts.inputs]
    merged: dict[int, int] = {}  # the first input that each was merged with
    firsts: dict[int, int] = {}
    for index in range(len(advantages)):
        number, owner = rollouts.input_of(index), advantages.input_of(index)
        if advantages.inputs[owner].params.get("merge"):
            merged[number] = firsts.setdefault(owner, number)
        columns = common.zip_columns(index, *sources)
        kept[number].append(_kept(columns, names, rollouts.inputs[number]))
    for parts, one in zip(kept, rollouts.inputs, strict=True):
        table = pa.concat_tables(parts)
        _check_values(table, one, logprobs, needed)
        if options.old_logprobs == "rollout":
            _require_behaviour(table, one, "use `--old-logprobs recompute`")
        if "behaviour_logp" in objective.needs:
            hint = "this objective needs it: sample the completions with `rlvr rollout`"
            _require_behaviour(table, one, hint)
    table = pa.concat_tables(part for parts in kept for part in parts)
    known = table[by_sampler].is_valid().to_pylist()
    sampled = common.arrays(table[by_sampler])
    return UpdateBatch(
        _rows(table, objective, old),
        table["prompt_id"].to_pylist(),
        [
            merged.get(number, number)
            for number, parts in enumerate(kept)
            for part in parts
            for _ in range(len(part))
        ],
        [logp_T if is_known else None for logp_T, is_known in zip(sampled, known, strict=True)],
    )


def _by_sampler(rollouts: Shards) -> str:
    """The column of the policy's log-probs by the sampler: of DLC it has those of both."""
    decoupled = ["policy_logp" in (one.manifest["only"] or ()) for one in rollouts.inputs]
    if len(set(decoupled)) > 1:
        one, other = (rollouts.inputs[decoupled.index(value)] for value in (True, False))
        raise DataError(
            f"`{one.path}` was sampled from the policy less a memory, `{other.path}` was not",
            "take one of them alone",
        )
    return "policy_logp" if decoupled[0] else "behaviour_logp"


def _require_logprobs(
    logprobs: Shards | None, rollouts: Shards, needed: tuple[str, ...], top_k: int
) -> None:
    """An error unless the logprobs directory has what is needed and is of these rollouts."""
    directories = logprobs.inputs if logprobs else ()
    columns = [set(one.manifest["only"]) for one in directories]
    available = set.intersection(*columns) if columns else set()
    stored = min((one.params.get("ref_top_k") or 0 for one in directories), default=0)
    if missing := [name for name in needed if name not in available]:
        raise DataError(
            f"this objective needs {' and '.join(missing)}, which no logprobs directory here has",
            _recipe(logprobs, rollouts, needed, top_k),
        )
    if logprobs and set(needed) & set(TOP_K) and stored < top_k:
        raise DataError(
            f"`{logprobs.path}` holds the {stored} likeliest tokens of the reference policy, this "
            f"objective needs {top_k}",
            _recipe(logprobs, rollouts, needed, top_k),
        )
    made_from = [name for one in directories for name in digests(one.manifest, "rollouts")]
    if logprobs and made_from != [one.digest for one in rollouts.inputs]:
        raise DataError(
            f"`{logprobs.path}` was made from other rollouts than `{rollouts.path}`",
            "make it again with `rlvr logprob`, or name the right one with --logprobs",
        )


def _recipe(logprobs: Shards | None, rollouts: Shards, needed: tuple[str, ...], top_k: int) -> str:
    """The hint with the command that makes all that is needed, in another directory if it must."""
    command = f"rlvr logprob {rollouts.as_argument} --columns {','.join(needed)}"
    if set(needed) & set(logprob.REFERENCE_COLUMNS):
        command += " --ref-model MODEL"
    if set(needed) & set(TOP_K):
        command += f" --ref-top-k {top_k}"
    is_one = len(rollouts.inputs) == 1
    if not logprobs and is_one:
        return f"make it with `{command}`"
    other = rollouts.path.parent / "more-logprobs" if is_one else "logprobs-of-all"
    return f"make it with `{command} --out {other}`, then name that with --logprobs"


def _kept(columns: dict[str, pa.ChunkedArray], names: list[str], rollouts: Shards) -> pa.Table:
    table = pa.table(columns)
    common.require_tokens(rollouts, table)
    return table.select(names).filter(table["keep"])


def _check_values(
    table: pa.Table, rollouts: Shards, logprobs: Shards | None, needed: tuple[str, ...]
) -> None:
    """An error that names the first row whose log-probs are not one finite number a token."""
    again = "the directory is damaged: make it again with `rlvr rollout`"
    common.require_logps(table, "behaviour_logp", f"`{rollouts.path}`", again)
    for name in needed:
        assert logprobs
        again = f"make `{logprobs.path}` again with `rlvr logprob`"
        if table[name].null_count:
            raise DataError(f"`{logprobs.path}` has completions without {name}", again)
        common.require_logps(table, name, f"`{logprobs.path}`", again)


def _require_behaviour(table: pa.Table, rollouts: Shards, hint: str) -> None:
    if table["behaviour_logp"].null_count:
        raise DataError(f"`{rollouts.path}` has completions without behaviour_logp", hint)


def _rows(table: pa.Table, objective: Objective, old: str | None) -> list[Row]:
    def lists(name: str | None) -> Sequence[Any]:
        is_there = name in table.column_names
        return common.arrays(table[name]) if is_there else [None] * table.num_rows

    behaviour = "behaviour_logp" if "behaviour_logp" in objective.needs else None
    names = ("prompt_token_ids", "token_ids", old, "ref_logp", behaviour, *TOP_K)
    plain = table.select(["advantage", *objective.columns]).to_pylist()
    return [
        Row(
            prompt_token_ids,
            token_ids,
            row.pop("advantage"),
            old_logp,
            ref_logp,
            behaviour_logp,
            ref_topk_ids=ref_topk_ids,
            ref_topk_logp=ref_topk_logp,
            columns={name: value for name, value in row.items() if value is not None},
        )
        for (
            row,
            prompt_token_ids,
            token_ids,
            old_logp,
            ref_logp,
            behaviour_logp,
            ref_topk_ids,
            ref_topk_logp,
        ) in zip(plain, *map(lists, names), strict=True)
    ]

"""The rows of an update, checked: complete, of the right rollouts, and finite."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.algorithms import objective as objectives
from rlvr_cli.algorithms.objective import Objective, Tokens
from rlvr_cli.config import UpdateOptions
from rlvr_cli.errors import DataError
from rlvr_cli.models.policy import Policy
from rlvr_cli.protocols import Floats, Row
from rlvr_cli.runtime.later import torch
from rlvr_cli.stages import common, logprob, row_images
from rlvr_cli.storage.images import Images
from rlvr_cli.storage.manifest import digests
from rlvr_cli.storage.schema import TOP_K
from rlvr_cli.storage.shards import MANIFEST, Shards


@dataclass(frozen=True)
class UpdateBatch:
    """The kept rows of an advantages directory, each with its prompt and the input it comes from.

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
    images: Sequence[Images | None] = (),
) -> UpdateBatch:
    """The kept rows with the columns that the objective and the old log-probs need.

    `images` are those of the prompts of each input of the rollouts, if any has some.
    """
    by_sampler = _by_sampler(rollouts)
    old = {"rollout": by_sampler, "stored": "old_logp"}.get(options.old_logprobs)
    needed = logprob.update_columns(objective.needs)
    if old == "old_logp" and old not in needed:
        needed = (*needed, old)
    _require_logprobs(advantages, logprobs, rollouts, needed, objective.top_k)
    names = [*common.KEY, "prompt_token_ids", "token_ids", "advantage", "behaviour_logp"]
    names += [*needed, *objective.columns] + [by_sampler] * (by_sampler not in names)
    kept, merged = _of_inputs(advantages, rollouts, logprobs if needed else None, names)
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
    inputs = [
        merged.get(number, number)
        for number, parts in enumerate(kept)
        for part in parts
        for _ in range(len(part))
    ]
    rows = _rows(table, objective, old, _token_columns(table, objective, inputs))
    if any(images):
        rows = _with_images(rows, kept, images)
    return UpdateBatch(
        rows,
        table["prompt_id"].to_pylist(),
        inputs,
        [logp_T if is_known else None for logp_T, is_known in zip(sampled, known, strict=True)],
    )


def _of_inputs(
    advantages: Shards, rollouts: Shards, logprobs: Shards | None, names: list[str]
) -> tuple[list[list[pa.Table]], dict[int, int]]:
    """The kept rows of each input's parts, and the first input that each was merged with."""
    sources = [rollouts, advantages] + ([logprobs] if logprobs else [])
    kept: list[list[pa.Table]] = [[] for _ in rollouts.inputs]
    merged: dict[int, int] = {}
    firsts: dict[int, int] = {}
    for index in range(len(advantages)):
        number, owner = rollouts.input_of(index), advantages.input_of(index)
        if advantages.inputs[owner].params.get("merge"):
            merged[number] = firsts.setdefault(owner, number)
        columns = common.zip_columns(index, *sources)
        kept[number].append(_kept(columns, names, rollouts.inputs[number]))
    return kept, merged


def _with_images(
    rows: list[Row], kept: list[list[pa.Table]], images: Sequence[Images | None]
) -> list[Row]:
    """The rows of each input, which follow one another, with the images of their prompts."""
    together: list[Row] = []
    for parts, own in zip(kept, images, strict=True):
        names = [name for part in parts for name in part["prompt_id"].to_pylist()]
        start = len(together)
        together += row_images.with_images(rows[start : start + len(names)], names, own)
    return together


def _by_sampler(rollouts: Shards) -> str:
    """The column of the policy's log-probs by the sampler: of DLC it has those of both."""
    decoupled = ["policy_logp" in (one.manifest["only"] or ()) for one in rollouts.inputs]
    if len(set(decoupled)) > 1:
        one, other = (rollouts.inputs[decoupled.index(value)] for value in (True, False))
        raise DataError(
            f"`{one.path}` was sampled from the policy minus a memory model, and `{other.path}` "
            "from the policy alone",
            "take only one of them",
        )
    return "policy_logp" if decoupled[0] else "behaviour_logp"


def _require_logprobs(
    advantages: Shards,
    logprobs: Shards | None,
    rollouts: Shards,
    needed: tuple[str, ...],
    top_k: int,
) -> None:
    """An error unless the logprobs directory has the needed columns and is of these rollouts."""
    directories = logprobs.inputs if logprobs else ()
    columns = [set(one.manifest["only"]) for one in directories]
    available = set.intersection(*columns) if columns else set()
    stored = min((one.params.get("ref_top_k") or 0 for one in directories), default=0)
    if missing := [name for name in needed if name not in available]:
        raise DataError(
            f"this objective needs {' and '.join(missing)}, which no logprobs directory here has",
            _recipe(advantages, logprobs, rollouts, needed, top_k),
        )
    if logprobs and set(needed) & set(TOP_K) and stored < top_k:
        raise DataError(
            f"`{logprobs.path}` holds the {stored} likeliest tokens of the reference policy, this "
            f"objective needs {top_k}",
            _recipe(advantages, logprobs, rollouts, needed, top_k),
        )
    parents = [name for one in directories for name in digests(one.manifest, "rollouts")]
    if logprobs and parents != [one.digest for one in rollouts.inputs]:
        raise DataError(
            f"`{logprobs.path}` was made from other rollouts than `{rollouts.path}`",
            "make it again with `rlvr logprob`, or name the right one with --logprobs",
        )


def require_of(
    policy: Policy, advantages: Shards, logprobs: Shards, rollouts: Shards, objective: Objective
) -> None:
    """An error where what an objective reads of the policy before its update is of another one."""
    names = logprob.stored_columns(objective.needs)
    for one in logprobs.inputs if names else ():
        if one.params.get("policy") not in (None, policy.digest):
            needed = logprob.read_columns(objective.needs)
            raise DataError(
                f"`{one.path}` holds {' and '.join(names)} of another policy than "
                f"`{policy.name}`, which is updated",
                _recipe(advantages, logprobs, rollouts, needed, objective.top_k, policy.name),
            )


def _recipe(
    advantages: Shards,
    logprobs: Shards | None,
    rollouts: Shards,
    needed: tuple[str, ...],
    top_k: int,
    model: str | None = None,
) -> str:
    """The hint with the command that makes all log-probs, in another directory if necessary."""
    command = f"rlvr logprob {rollouts.as_argument} --columns {','.join(needed)}"
    if model:
        command += f" --model {shlex.quote(model)}"
    if set(needed) & set(logprob.REFERENCE_COLUMNS):
        command += " --ref-model MODEL"
    if set(needed) & set(TOP_K):
        command += f" --ref-top-k {top_k}"
    is_one = len(rollouts.inputs) == 1
    folder = rollouts.path.parent
    is_free = not (folder / "logprobs" / MANIFEST).exists()
    is_read = all(one.path.parent.resolve() == folder.resolve() for one in advantages.inputs)
    if is_one and is_free and is_read and not logprobs:
        return f"make it with `{command}`"
    other = folder / "more-logprobs" if is_one else "logprobs-of-all"
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


def _token_columns(
    table: pa.Table, objective: Objective, inputs: list[int]
) -> list[dict[str, Floats]]:
    """What an objective makes of the tokens of all rows together, row by row."""
    lengths = pc.list_value_length(table["token_ids"]).to_numpy()
    if not objective.token_columns or not len(lengths):
        return [{} for _ in lengths]
    groups = common.group_codes(list(zip(inputs, table["prompt_id"].to_pylist(), strict=True)))
    ends = np.cumsum(lengths)
    row_K = np.repeat(np.arange(len(lengths)), lengths)
    tokens = Tokens(
        row_K=torch.from_numpy(row_K),
        group_K=torch.from_numpy(groups[row_K]),
        place_K=torch.from_numpy(np.arange(len(row_K)) - (ends - lengths)[row_K]),
        advantage_K=torch.from_numpy(table["advantage"].to_numpy()[row_K]),
        stored={
            name: torch.from_numpy(common.flat(table[name]).astype(np.float64))
            for name in logprob.token_columns(objective.needs)
        },
    )
    values = objectives.token_values(objective, tokens)
    split = {name: np.split(value_K.numpy(), ends[:-1]) for name, value_K in values.items()}
    return [{name: rows[i] for name, rows in split.items()} for i in range(len(lengths))]


def _rows(
    table: pa.Table,
    objective: Objective,
    old: str | None,
    token_columns: list[dict[str, Floats]],
) -> list[Row]:
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
            token_columns=own,
        )
        for (
            row,
            own,
            prompt_token_ids,
            token_ids,
            old_logp,
            ref_logp,
            behaviour_logp,
            ref_topk_ids,
            ref_topk_logp,
        ) in zip(plain, token_columns, *map(lists, names), strict=True)
    ]

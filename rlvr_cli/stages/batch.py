"""The rows of an update: what it needs is there, of the right rollouts, and finite."""

import shlex
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
from rlvr_cli.storage.schema import TOP_K
from rlvr_cli.storage.shards import Shards


@dataclass(frozen=True)
class UpdateBatch:
    """The kept rows of an advantages directory, with the prompt of each."""

    rows: list[Row]
    prompt_ids: list[str]
    sampler_logp: list[np.ndarray | None]  # the policy's, as the sampler computed them


def read(
    advantages: Shards,
    rollouts: Shards,
    logprobs: Shards | None,
    objective: Objective,
    options: UpdateOptions,
) -> UpdateBatch:
    """The kept rows with the columns that the objective and the old log-probs need."""
    by_sampler = "policy_logp" if _is_decoupled(rollouts) else "behaviour_logp"
    old = {"rollout": by_sampler, "stored": "old_logp"}.get(options.old_logprobs)
    needed = logprob.reference_columns(objective.needs) + (
        ("old_logp",) if old == "old_logp" else ()
    )
    _require_logprobs(logprobs, rollouts, needed, objective.top_k)
    sources = [rollouts, advantages] + ([logprobs] if logprobs else [])
    names = [*common.KEY, "prompt_token_ids", "token_ids", "advantage", "behaviour_logp"]
    names += [*needed, *objective.columns] + [by_sampler] * (by_sampler not in names)
    kept = [_kept(common.zip_columns(i, *sources), names, rollouts) for i in range(len(advantages))]
    table = pa.concat_tables(kept)
    _check_values(table, rollouts, logprobs, needed)
    if options.old_logprobs == "rollout":
        _require_behaviour(table, rollouts, "use `--old-logprobs recompute`")
    if "behaviour_logp" in objective.needs:
        hint = "this objective needs it: sample the completions with `rlvr rollout`"
        _require_behaviour(table, rollouts, hint)
    known = table[by_sampler].is_valid().to_pylist()
    sampled = common.arrays(table[by_sampler])
    return UpdateBatch(
        _rows(table, objective, old),
        table["prompt_id"].to_pylist(),
        [logp_T if is_known else None for logp_T, is_known in zip(sampled, known, strict=True)],
    )


def _is_decoupled(rollouts: Shards) -> bool:
    """Whether the rollouts were sampled from the policy less a memory, with both log-probs."""
    return "policy_logp" in (rollouts.manifest["only"] or ())


def _require_logprobs(
    logprobs: Shards | None, rollouts: Shards, needed: tuple[str, ...], top_k: int
) -> None:
    """An error unless the logprobs directory has what is needed and is of these rollouts."""
    available = set(logprobs.manifest["only"]) if logprobs else set()
    stored = (logprobs.params.get("ref_top_k") if logprobs else None) or 0
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
    if logprobs and logprobs.manifest["parents"]["rollouts"]["digest"] != rollouts.digest:
        raise DataError(
            f"`{logprobs.path}` was made from other rollouts than `{rollouts.path}`",
            "make it again with `rlvr logprob`, or name the right one with --logprobs",
        )


def _recipe(logprobs: Shards | None, rollouts: Shards, needed: tuple[str, ...], top_k: int) -> str:
    """The hint with the command that makes all that is needed, in another directory if it must."""
    command = f"rlvr logprob {shlex.quote(str(rollouts.path))} --columns {','.join(needed)}"
    if set(needed) & set(logprob.REFERENCE_COLUMNS):
        command += " --ref-model MODEL"
    if set(needed) & set(TOP_K):
        command += f" --ref-top-k {top_k}"
    if not logprobs:
        return f"make it with `{command}`"
    other = rollouts.path.parent / "more-logprobs"
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

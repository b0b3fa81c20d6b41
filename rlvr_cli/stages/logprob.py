"""The stage that computes the log-probs of stored completions under policies."""

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.algorithms.objective import COMPLETION_KL
from rlvr_cli.config import UpdateOptions
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.memory_estimate import phases
from rlvr_cli.memory_estimate.model_size import PaddedRows, shape_of
from rlvr_cli.models import policy as policies, pretrained
from rlvr_cli.models.policy import Loaded, Policy
from rlvr_cli.protocols import Row
from rlvr_cli.runtime import device
from rlvr_cli.stages import common, origins, row_images
from rlvr_cli.storage import schema
from rlvr_cli.storage.images import Images
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.schema import TOP_K
from rlvr_cli.storage.shards import Shards
from rlvr_cli.storage.share import ALL_PARTS, Share
from rlvr_cli.storage.writer import OnPart, write_shards

POLICY_COLUMNS = ("old_logp", "entropy", "max_prob")
COLLISION = "collision"
OF_POLICY = (*POLICY_COLUMNS, COLLISION)  # the last one only on request
REFERENCE_COLUMNS = ("ref_logp", *TOP_K)
COLUMNS = (*OF_POLICY, *REFERENCE_COLUMNS)


def run(
    rollouts: Shards,
    out: Path,
    *,
    columns: tuple[str, ...] = POLICY_COLUMNS,
    policy: Policy | None = None,
    reference: Policy | None = None,
    ref_top_k: int = 0,
    load: Callable[[Policy], Loaded] | None = None,
    micro_batch_tokens: int = UpdateOptions.micro_batch_tokens,
    share: Share = ALL_PARTS,
    on_part: OnPart = lambda index, state: None,
) -> Shards | None:
    """A logprobs directory with the requested columns, at the temperature of the rollouts.

    `policy` gives old_logp, entropy, max_prob and collision, `reference` gives ref_logp and, for
    each token, the ids and log-probs of the `ref_top_k` tokens that it finds likeliest there.
    `load` is called once for each of them that a part needs and may know them in memory; without
    it they are loaded.
    """
    check(columns, has_reference=reference is not None, ref_top_k=ref_top_k)
    columns = tuple(name for name in COLUMNS if name in columns)
    by_policy = policy if set(columns) & set(OF_POLICY) else None
    by_reference = reference if set(columns) & set(REFERENCE_COLUMNS) else None
    if by_reference and ref_top_k:
        _check_vocabulary(by_reference, ref_top_k)
    for source in filter(None, (by_policy, by_reference)) if load is None else ():
        origins.require_tokenizer(rollouts, source)
    params = {
        "policy": by_policy.digest if by_policy else None,
        "reference": by_reference.digest if by_reference else None,
        "ref_top_k": ref_top_k or None,
        "temperature": common.temperature(rollouts),
        "micro_batch_tokens": micro_batch_tokens,
    }
    only = common.only_with_input("logprobs", rollouts, columns)
    plan = Plan("logprobs", "logprob", params, {"rollouts": rollouts}, len(rollouts), only=only)
    images_of = functools.cache(lambda source: row_images.of_rollouts(rollouts, source))
    load = functools.cache(
        load or (lambda source: _load(source, rollouts, micro_batch_tokens, any(images_of(source))))
    )

    def make(index: int) -> pa.Table:
        part = rollouts.part(index)
        common.require_tokens(rollouts, part)
        columns_of_part = {name: part[name] for name in common.KEY}
        for source, kind in ((by_policy, OF_POLICY), (by_reference, REFERENCE_COLUMNS)):
            if source:
                names = [name for name in columns if name in kind]
                images = images_of(source)[rollouts.input_of(index)]
                arrays = _evaluate(load(source).model, part, names, plan, images)
                _require_finite(arrays, part, f"`{rollouts.path}` under `{source.name}`")
                columns_of_part.update(arrays)
        table = pa.table({name: columns_of_part[name] for name in (*common.KEY, *columns)})
        return common.add_input(table, rollouts, index).select(plan.schema.names).cast(plan.schema)

    return write_shards(out, plan, make, share=share, summarise=summarise, on_part=on_part)


def _load(policy: Policy, rollouts: Shards, micro_batch_tokens: int, images: bool) -> Loaded:
    """The policy, if there is memory for a pass of it."""
    shape, accelerator = shape_of(policy, images=images), device.here()
    longest = common.longest(rollouts) if shape.capped else 1
    rows = PaddedRows(max(micro_batch_tokens, longest), longest)  # a row at least, however long
    phases.require(policy, phases.evaluation(shape, accelerator, rows), accelerator)
    return policies.load(policy)


def reference_columns(needs: Iterable[str]) -> tuple[str, ...]:
    """The columns of the reference policy that an objective with these needs reads."""
    ref_logp = {"ref_logp", "stored_ref_logp", COMPLETION_KL}.intersection(needs)
    return (*(("ref_logp",) if ref_logp else ()), *(TOP_K if "ref_topk" in needs else ()))


def stored_columns(needs: Iterable[str]) -> tuple[str, ...]:
    """The columns of the policy before its update that an objective with these needs reads."""
    read = {"old_logp"} if COMPLETION_KL in needs else set()
    return tuple(name for name in OF_POLICY if name in read or f"stored_{name}" in needs)


def read_columns(needs: Iterable[str]) -> tuple[str, ...]:
    """Every column that an objective with these needs reads."""
    return (*stored_columns(needs), *reference_columns(needs))


def update_columns(needs: Iterable[str]) -> tuple[str, ...]:
    """Those of them that the update reads: what the estimator charges is in the advantages."""
    return read_columns(set(needs) - {COMPLETION_KL})


def token_columns(needs: Iterable[str]) -> tuple[str, ...]:
    """Those that are read of all tokens together, before the update; the sampler's among them."""
    return tuple(name for name in (*COLUMNS, "behaviour_logp") if f"stored_{name}" in needs)


def default_columns(*, has_reference: bool, ref_top_k: int) -> tuple[str, ...]:
    """Every column that there is something to make from."""
    top_k = TOP_K if ref_top_k else ()
    return (*POLICY_COLUMNS, *(("ref_logp",) if has_reference else ()), *top_k)


def check(columns: tuple[str, ...], *, has_reference: bool, ref_top_k: int = 0) -> None:
    """Refuses columns that this stage cannot make."""
    for name in columns:
        if name not in COLUMNS:
            raise UsageError(f"unknown column `{name}`", f"the columns are {', '.join(COLUMNS)}")
        if name in REFERENCE_COLUMNS and not has_reference:
            raise UsageError(f"{name} needs a reference policy", "name it with --ref-model")
        if name in TOP_K and ref_top_k < 1:
            raise UsageError(
                f"{name} needs a number of likeliest tokens, --ref-top-k is {ref_top_k}",
                "say how many, as in --ref-top-k 8",
            )
    if ref_top_k and not set(columns) & set(TOP_K):
        raise UsageError(
            f"--ref-top-k is {ref_top_k}, and none of the requested columns has top-k tokens",
            f"leave it out, or name {' and '.join(TOP_K)} too",
        )


def _check_vocabulary(reference: Policy, ref_top_k: int) -> None:
    try:
        config = pretrained.config((reference.base or reference).path)
    except DataError:
        return  # loading it will say what is wrong
    size = config.get_text_config().vocab_size
    if ref_top_k > size:
        raise UsageError(
            f"--ref-top-k is {ref_top_k}, the vocabulary of `{reference.name}` has {size} tokens",
            f"{size} is the most it may be",
        )


def _evaluate(
    model: Any, part: pa.Table, names: list[str], plan: Plan, images: Images | None
) -> dict[str, pa.Array]:
    """The columns of a part that a model gives."""
    import torch

    from rlvr_cli.models import logprobs as forward

    plain = common.training_rows(part)
    rows = row_images.with_images(plain, part["prompt_id"].to_pylist(), images)
    filled = [i for i, row in enumerate(rows) if len(row.token_ids)]
    columns: dict[str, list[np.ndarray]] = {name: [np.empty(0)] * len(rows) for name in names}
    with torch.no_grad():
        for indices in forward.micro_batches(
            [rows[i] for i in filled], plan.params["micro_batch_tokens"]
        ):
            batch = [rows[filled[i]] for i in indices]
            values = _values(model, batch, names, plan.params)
            for name in names:
                for i, value in zip(indices, forward.unpad(values[name], batch), strict=True):
                    columns[name][filled[i]] = value
    return {name: _array(columns[name], plan.schema.field(name).type) for name in names}


def _values(
    model: Any, batch: list[Row], names: list[str], params: dict[str, Any]
) -> dict[str, Any]:
    """The values of a micro-batch's tokens under their columns' names, [B, T] or [B, T, K]."""
    from rlvr_cli.models import logprobs as forward

    temperature = params["temperature"]
    others: dict[str, Any] = {}
    if set(names) & set(TOP_K):
        stats, top_k = forward.with_top_k(
            model, batch, params["ref_top_k"], temperature=temperature
        )
        others = dict(zip(TOP_K, top_k, strict=True))
    elif COLLISION in names:
        stats, others[COLLISION] = forward.with_collision(model, batch, temperature=temperature)
    else:
        stats = forward.completion_stats(model, batch, temperature=temperature)
    return others | {
        "old_logp": stats.logp_BT,
        "ref_logp": stats.logp_BT,
        "entropy": stats.entropy_BT,
        "max_prob": stats.max_prob_BT,
    }


def _array(values: list[np.ndarray], kind: pa.DataType) -> pa.Array:
    """A column of lists, or of lists of lists of one size, from an array for each row."""
    offsets = np.cumsum([0, *map(len, values)], dtype=np.int32)
    flat = np.concatenate([value.reshape(-1) for value in values] or [np.empty(0)])
    inner = kind.value_type
    is_nested = pa.types.is_fixed_size_list(inner)
    elements = pa.array(flat.astype((inner.value_type if is_nested else inner).to_pandas_dtype()))
    if is_nested:
        elements = pa.FixedSizeListArray.from_arrays(elements, type=inner)
    return pa.ListArray.from_arrays(offsets, elements, type=kind)


def _require_finite(arrays: dict[str, pa.Array], part: pa.Table, where: str) -> None:
    table = part.select([*common.KEY, "token_ids"])
    hint = "that policy's weights are damaged or have diverged: name another one"
    for name, array in arrays.items():
        common.require_logps(table.append_column(name, array), name, where, hint)


def summarise(logprobs: Shards) -> dict[str, Any]:
    """The token mean of each column, and the mean of old minus reference log-prob (k1)."""
    sums: dict[str, float] = {}
    tokens = 0
    for table in logprobs.parts():
        names = [n for n in table.column_names if n not in (*common.KEY, schema.INPUT)]
        for name in names:
            if name not in TOP_K:
                values = pc.list_flatten(table[name])
                sums[name] = sums.get(name, 0.0) + (pc.sum(values).as_py() or 0.0)
        tokens += pc.sum(pc.list_value_length(table[names[0]])).as_py() or 0
    means = {name: value / max(tokens, 1) for name, value in sums.items()}
    if {"old_logp", "ref_logp"} <= means.keys():
        means["kl_k1"] = means["old_logp"] - means["ref_logp"]
    return {"tokens": tokens, **means}

"""What the stages share: rows that line up, groups that are complete, numbers that are finite.

Shapes: N tokens of a column, K top-k.
"""

from collections.abc import Collection, Hashable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.protocols import Row
from rlvr_cli.runtime import distributed
from rlvr_cli.storage import joined, schema
from rlvr_cli.storage.shards import MANIFEST, Shards

KEY = ["prompt_id", "sample_index"]
_NOUNS = {"entropy": "an entropy", "max_prob": "a probability", "collision": "a probability"}


def together(shards: Shards | None, out: Path) -> Shards | None:
    """The directory that several processes wrote, once all are done; for one process `shards`."""
    if distributed.current().size == 1:
        return shards
    distributed.barrier()
    return shards or Shards.open(out)


def logprobs_of(shards: Shards, given: Path | None) -> Shards | None:
    """The logprobs directory that was given, or that of each input next to it, if all have one."""
    if given:
        return Shards.open(given, "logprobs")
    places = [one.path.parent / "logprobs" for one in shards.inputs]
    if not all((path / MANIFEST).exists() for path in places):
        return None
    return joined.join([Shards.open(path, "logprobs") for path in places])


def zip_columns(
    index: int, *directories: Shards, only: Collection[str] | None = None
) -> dict[str, pa.ChunkedArray]:
    """The columns of one part of several directories; an error unless their rows line up.

    `only` names those to read in addition to the key, from the directories that have them.
    """
    columns: dict[str, pa.ChunkedArray] = {}
    first = None
    for shards in directories:
        names = shards.schema.names
        table = shards.part(
            index, None if only is None else [n for n in names if n in KEY or n in only]
        )
        key = table.select(KEY).combine_chunks()
        if first is not None and not key.equals(first):
            raise DataError(
                f"part {index} of `{shards.path}` and of `{directories[0].path}` hold other rows",
                "make the later of the two again",
            )
        first = key
        columns.update({name: table[name] for name in table.column_names})
    return columns


def only_with_input(
    kind: str, rollouts: Shards, only: tuple[str, ...] | None = None
) -> tuple[str, ...] | None:
    """The value columns of a directory derived from rollouts; with several inputs, also `input`."""
    return only if len(rollouts.inputs) == 1 else schema.with_input(kind, only)


def add_input(table: pa.Table, rollouts: Shards, index: int) -> pa.Table:
    """The table of a part, with the number of its input where there are several."""
    if len(rollouts.inputs) == 1:
        return table
    number_N = np.full(table.num_rows, rollouts.input_of(index), np.int32)
    return table.append_column(schema.INPUT, pa.array(number_N))


def temperature(rollouts: Shards) -> float:
    """The temperature of log-probs: that of the rollouts; 1 if none of them records it."""
    known = {one.params["temperature"]: one for one in rollouts.inputs
             if one.params.get("temperature")}  # fmt: skip
    if len(known) > 1:
        (first, one), (second, other), *_ = known.items()
        raise UsageError(
            f"`{one.path}` was sampled at temperature {first}, `{other.path}` at {second}",
            "take rollouts of one temperature together",
        )
    value: float = next(iter(known), 1.0)
    return value


def group_codes(keys: Iterable[Hashable]) -> np.ndarray:
    """The number of each row's group, in order of first appearance."""
    codes: dict[Hashable, int] = {}
    return np.fromiter((codes.setdefault(key, len(codes)) for key in keys), dtype=np.int64)


def require_complete_groups(
    prompt_ids: pa.ChunkedArray,
    code_N: np.ndarray,
    sample_N: np.ndarray,
    size: int | None,
    where: Shards,
) -> None:
    """An error that names the first prompt whose samples are not 0 to n-1, each once.

    `code_N` are the numbers of the rows' groups; `size` is the number that every group must have,
    None where groups may differ.
    """
    count_G = np.bincount(code_N)
    order_N = np.lexsort((sample_N, code_N))
    begin_G = np.cumsum(count_G) - count_G
    expected_N = np.arange(len(code_N)) - np.repeat(begin_G, count_G)
    wrong_G = count_G != (count_G if size is None else size)
    wrong_G[code_N[order_N[sample_N[order_N] != expected_N]]] = True
    if not wrong_G.any():
        return
    group = int(wrong_G.argmax())
    sample_M = sample_N[code_N == group]
    doubled = len(np.unique(sample_M)) < len(sample_M)
    raise DataError(
        f"`{where.path}` holds {len(sample_M)} completions of prompt "
        f"`{prompt_ids[int((code_N == group).argmax())]}`"
        f"{', one of them twice' if doubled else ''}, {size or len(sample_M)} were expected",
        "a group must be complete: make the rollouts again",
    )


def training_rows(table: pa.Table) -> list[Row]:
    """The token ids of a rollouts part, as rows to evaluate or train on."""
    prompts, completions = arrays(table["prompt_token_ids"]), arrays(table["token_ids"])
    return [Row(prompt, tokens) for prompt, tokens in zip(prompts, completions, strict=True)]


def longest(rollouts: Shards) -> int:
    """The most tokens of a prompt and its completion."""
    names = ["prompt_token_ids", "token_ids"]
    most = 1
    for index in range(len(rollouts)):
        table = rollouts.part(index, names)
        prompt_N, completion_N = (pc.fill_null(pc.list_value_length(table[n]), 0) for n in names)
        most = max(most, pc.max(pc.add(prompt_N, completion_N)).as_py() or 0)
    return most


def arrays(column: pa.ChunkedArray) -> list[np.ndarray]:
    """The array of each row of a column of lists, [T] or [T, K]; a null row has none in it."""
    ends = pc.fill_null(pc.list_value_length(column), 0).to_numpy().cumsum()
    return np.split(flat(column), ends[:-1]) if len(ends) else []


def require_tokens(rollouts: Shards, table: pa.Table) -> None:
    """An error if completions or prompts came without token ids, as imported text does."""
    if table["token_ids"].null_count:
        raise DataError(
            f"`{rollouts.path}` holds text without token ids",
            "import it again with `rlvr import --model MODEL`, the policy whose tokens they are",
        )
    lengths = pc.list_value_length(table["prompt_token_ids"])
    if pc.any(pc.equal(lengths, 0)).as_py():
        row = pc.index(lengths, 0).as_py()
        raise DataError(
            f"prompt `{table['prompt_id'][row]}` of `{rollouts.path}` has no tokens",
            "import it again with --prompt-column",
        )


def flat(column: pa.ChunkedArray) -> np.ndarray:
    """The values of a column of lists, [N], or of lists of lists of size K, [N, K]."""
    values = pc.list_flatten(column)
    is_nested = pa.types.is_fixed_size_list(values.type)
    array: np.ndarray = (pc.list_flatten(values) if is_nested else values).to_numpy()
    return array.reshape(-1, values.type.list_size) if is_nested else array


def require_logps(table: pa.Table, name: str, where: str, hint: str) -> None:
    """An error that names the first completion without one finite value of `name` for each token.

    The table has the key and the token_ids of its rows. A row may be null, and where a value is a
    token's top-k it may hold -inf.
    """
    tokens = pc.list_value_length(table["token_ids"])
    lengths = pc.list_value_length(table[name])
    row = pc.index(pc.not_equal(lengths, tokens), True).as_py()
    if row >= 0:
        raise DataError(
            f"`{name}` of {where} holds {lengths[row]} values for {_completion(table, row)}, "
            f"which has {tokens[row]} token_ids",
            hint,
        )
    value_N = flat(table[name])
    wrong_N = ~np.isfinite(value_N)
    if value_N.ndim > 1:
        wrong_N = (wrong_N & ~np.isneginf(value_N)).any(-1)
    if wrong_N.any():
        at = wrong_N.argmax()
        ends = pc.fill_null(lengths, 0).to_numpy().cumsum()
        row = int(np.searchsorted(ends, at, side="right"))
        raise DataError(
            f"`{name}` of {where} holds {_NOUNS.get(name, 'a log-prob')} of {value_N[at].max()} "
            f"for {_completion(table, row)}",
            hint,
        )


def _completion(table: pa.Table, row: int) -> str:
    return f"sample {table['sample_index'][row]} of prompt `{table['prompt_id'][row]}`"


def require_finite(logps: list[np.ndarray], prompt_ids: list[str]) -> None:
    """An error that names the first prompt with a log-prob that is not finite."""
    for logp_T, prompt_id in zip(logps, prompt_ids, strict=True):
        wrong_T = ~np.isfinite(logp_T)
        if wrong_T.any():
            raise DataError(
                f"the policy gives a log-prob of {logp_T[wrong_T.argmax()]} to a completion of "
                f"`{prompt_id}`",
                "its weights are damaged or have diverged: go back to an earlier checkpoint",
            )

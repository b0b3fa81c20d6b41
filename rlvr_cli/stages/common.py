"""What the stages share: rows that line up, groups that are whole."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.errors import DataError
from rlvr_cli.protocols import Row
from rlvr_cli.shards import Shards

KEY = ["prompt_id", "sample_index"]


def aligned(index: int, *directories: Shards) -> dict[str, pa.ChunkedArray]:
    """The columns of one part of several directories; an error unless their rows line up."""
    columns: dict[str, pa.ChunkedArray] = {}
    first = None
    for shards in directories:
        table = shards.part(index)
        key = table.select(KEY).combine_chunks()
        if first is not None and not key.equals(first):
            raise DataError(
                f"part {index} of `{shards.path}` and of `{directories[0].path}` hold other rows",
                "make the later of the two again",
            )
        first = key
        columns.update({name: table[name] for name in table.column_names})
    return columns


def group_codes(prompt_ids: list[str]) -> np.ndarray:
    """The number of each row's group, in order of first appearance."""
    codes: dict[str, int] = {}
    return np.array([codes.setdefault(p, len(codes)) for p in prompt_ids], dtype=np.int64)


def require_whole_groups(
    prompt_ids: list[str], sample_indices: list[int], size: int | None, where: Shards
) -> None:
    """An error that names the first prompt whose samples are not 0 to n-1, each once.

    `size` is the number every group must have, None where groups may differ.
    """
    found: dict[str, list[int]] = {}
    for prompt_id, sample in zip(prompt_ids, sample_indices, strict=True):
        found.setdefault(prompt_id, []).append(sample)
    for prompt_id, samples in found.items():
        expected = size or len(samples)
        if sorted(samples) != list(range(expected)):
            doubled = len(set(samples)) < len(samples)
            raise DataError(
                f"`{where.path}` holds {len(samples)} completions of prompt `{prompt_id}`"
                f"{', one of them twice' if doubled else ''}, {expected} were expected",
                "a group must be whole: make the rollouts again",
            )


def training_rows(table: pa.Table) -> list[Row]:
    """The token ids of a rollouts part, as rows to evaluate or train on."""
    prompts, completions = table["prompt_token_ids"].to_pylist(), table["token_ids"].to_pylist()
    return [Row(prompt, tokens) for prompt, tokens in zip(prompts, completions, strict=True)]


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

"""What the prompts of a directory ask: messages, and whether they are raw text or a question."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.models import messages
from rlvr_cli.storage import rows
from rlvr_cli.storage.shards import Shards

_COLUMNS = ["prompt_id", "messages", "raw"]


def with_raw(prompts: Shards, numbers: Sequence[int] | np.ndarray) -> pa.Table:
    """Id, messages and rawness of the prompts of these numbers, see `parts_with_raw`."""
    return _raw_known(prompts, rows.of(prompts).take(numbers, _COLUMNS))


def parts_with_raw(prompts: Shards) -> Iterator[pa.Table]:
    """Id, messages and rawness of each prompt: whether it is raw text rather than a question.

    Where a row does not say it, prompts of a task are raw, and those derived from them.
    """
    for index in range(len(prompts)):
        yield _raw_known(prompts, prompts.part(index, _COLUMNS))


def _raw_known(prompts: Shards, table: pa.Table) -> pa.Table:
    if not table["raw"].null_count:
        return table
    raw = pc.fill_null(table["raw"], _is_of_task(prompts))
    return table.set_column(2, "raw", raw)


def _is_of_task(prompts: Shards) -> bool:
    if "task" in prompts.params:
        return True
    return "prompts" in prompts.manifest["parents"] and _is_of_task(prompts.parent("prompts"))


def refuse_answers(prompts: Shards) -> None:
    """An error if a prompt ends with the assistant's turn."""
    for part in parts_with_raw(prompts):
        names, texts = part["prompt_id"].to_pylist(), part["messages"].to_pylist()
        for name, text in zip(names, texts, strict=True):
            if text[:1] != '"':
                messages.refuse_answer(messages.stored(text, name), name)

"""Which prompts of a directory the completions of another tool's file answer."""

from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError
from rlvr_cli.interop import readers
from rlvr_cli.stages import overlap
from rlvr_cli.storage.shards import Shards

Row = dict[str, Any]


def known(
    prompts: Shards, first: dict[str, Row], source: Path, prompt_column: str | None
) -> dict[str, Row]:
    """The prompt of each id of a file: the one of that id, or else the one of the row's text.

    `first` holds the first row of each id. An error for an id that has no prompt, for a text that
    several prompts have, and for two ids of one prompt.
    """
    by_id = {row["prompt_id"]: row for row in prompts.table().to_pylist()}
    by_text: dict[str, list[Row]] = {}
    for row in by_id.values():
        by_text.setdefault(overlap.text_of(row["messages"]), []).append(row)
    rows = list(first.values())
    column = readers.column(rows, prompt_column, readers.PROMPT, "--prompt-column", source)
    answered: dict[str, Row] = {}
    owners: dict[str, str] = {}
    for name, row in first.items():
        prompt = by_id.get(name) or _by_text(by_text, row, column, name, prompts)
        if prompt is None:
            where = f"nor the text of its `{column}`" if column else "and the file has no prompts"
            raise DataError(
                f"`{prompts.path}` has no prompt `{name}` of `{source}`, {where}",
                "name the prompts that were answered, or leave --prompts out",
            )
        other = owners.setdefault(prompt["prompt_id"], name)
        if other != name:
            raise DataError(
                f"`{other}` and `{name}` of `{source}` are one prompt of `{prompts.path}`, "
                f"`{prompt['prompt_id']}`",
                "give their completions one id",
            )
        answered[name] = prompt
    return answered


def _by_text(
    by_text: dict[str, list[Row]], row: Row, column: str | None, name: str, prompts: Shards
) -> Row | None:
    value = readers.look_up(row, column) if column else None
    if not value:
        return None
    same = by_text.get(overlap.text_of_value(value), [])
    if len(same) > 1:
        raise DataError(
            f"`{prompts.path}` has {len(same)} prompts with the text of `{name}`, as "
            f"`{same[0]['prompt_id']}` and `{same[1]['prompt_id']}`",
            "give the completions the ids of the prompts, in a column named by --id-column",
        )
    return same[0] if same else None

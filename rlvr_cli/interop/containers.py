"""The rows in a JSON value: a list of them, one list among other fields, or one a key."""

import json
import shlex
from collections.abc import Callable
from typing import Any

from rlvr_cli.errors import DataError

Row = dict[str, Any]
IsRow = Callable[[set[str]], bool]

ID = ("prompt_id", "custom_id", "id", "uid", "unique_id", "task_id", "question_id", "doc_id")
_TEXTS = ("completion", "completions", "response", "responses", "output", "outputs", "generation",
          "generations", "solution", "solutions", "code", "text", "prompt", "problem", "question",
          "messages", "prediction", "predictions", "pred", "origin_prompt")  # fmt: skip
_OF_ROWS = {"prompt", "problem", "question", "messages", "completion", "completions", "response",
            "responses"}  # fmt: skip
_ASKED = ("prompt", "problem", "question", "instruction", "query")  # a text of each row
_LISTS = ("results", "data", "samples", "rows", "records", "items", "examples", "instances",
          "predictions", "details", "problems", "questions")  # fmt: skip


def rows(value: Any, where: object, is_row: IsRow = lambda names: False) -> list[Any]:
    """The rows of a JSON value, which the caller checks; `is_row` objects stay as they are.

    A list of lists of texts holds the completions of one prompt after the other, so that a prompt's
    id is its place, from 0. An object with one list of objects is read as that list. One whose keys
    name its objects, or their lists, gives each its key as `prompt_id`.
    """
    if isinstance(value, list):
        if value and all(_are_texts(one) for one in value):
            return [{"prompt_id": str(at), "completions": one} for at, one in enumerate(value)]
        return value
    if not isinstance(value, dict) or is_row(set(value)):
        return [value]
    if (listed := _listed(value, where)) is not None:
        return listed
    return _columns(value) or _keyed(value) or [value]


def holds_rows(value: Any, where: object, is_row: IsRow) -> bool:
    """Whether a JSON value holds rows, as opposed to settings or figures of a run."""
    read = rows(value, where, is_row)
    if read != [value] or is_row(set(value)):
        return True
    return _has_id(value) or bool(_OF_ROWS & set(value))


def inner(value: Row, path: str = "") -> str | None:
    """jq's path to the first list of rows inside an object of objects; None without one."""
    for key, one in value.items():
        here = f"{path}[{json.dumps(key)}]"
        if _are_objects(one) and {*ID, *_TEXTS} & set(one[0]):
            return f".{here}[]"
        if isinstance(one, dict) and (found := inner(one, here)):
            return found
    return None


def _listed(value: Row, where: object) -> list[Row] | None:
    """The one list of objects among the fields; an error where there are several."""
    lists = {name: one for name, one in value.items() if _are_objects(one)}
    is_one_row = _has_id(value)
    named = [
        name
        for name, one in lists.items()
        if all(map(_has_id, one)) and (name in _LISTS or not is_one_row)
    ] or [name for name in lists if name in _LISTS and not is_one_row]
    if len(named) > 1:
        taken = shlex.quote(f".[{json.dumps(named[0])}][]")
        raise DataError(
            f"`{where}` holds several lists of rows: {', '.join(named)}",
            f"take one of them out: jq -c {taken} {shlex.quote(str(where))} > rows.jsonl",
        )
    return lists[named[0]] if named else None


def _columns(value: Row) -> list[Row] | None:
    """The rows of columns, as pandas and `datasets` write them."""
    if not {*ID, *_TEXTS} & set(value):
        return None
    columns = list(value.values())
    if all(isinstance(one, list) for one in columns):
        asked = any(_are_texts(value.get(name)) for name in _ASKED)
        if len({len(one) for one in columns}) != 1 or not (asked or {*ID} & set(value)):
            return None
        return [dict(zip(value, cells, strict=True)) for cells in zip(*columns, strict=True)]
    if not columns[0] or not all(isinstance(one, dict) and set(one) == set(columns[0])
                                 for one in columns):  # fmt: skip
        return None
    return [{name: one[at] for name, one in value.items()} for at in columns[0]]


def _keyed(value: Row) -> list[Row] | None:
    """One row a key, or one for each object of a list; they must hold texts, as figures do not."""
    if not value or {*ID, *_TEXTS} & set(value):
        return None
    if all(_are_texts(one) for one in value.values()):
        return [{"prompt_id": key, "completions": one} for key, one in value.items()]
    listed = []
    for key, one in value.items():
        for row in one if _are_objects(one) else [one]:
            if not isinstance(row, dict) or not {*_TEXTS} & set(row):
                return None
            listed.append(row if _has_id(row) else {"prompt_id": key, **row})
    return listed


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def are_turns(value: Any) -> bool:
    """Whether a value is a conversation: a list of messages."""
    return _are_objects(value) and all(
        isinstance(one.get("role", one.get("from")), str) for one in value
    )


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def _has_id(row: Any) -> bool:
    return any(isinstance(row.get(name), str | int) for name in ID)

"""Lists and messages that were written as text, as in the CSV that pandas writes of them."""

import ast
import json
from typing import Any

from rlvr_cli.interop import spoken

_LISTED = (
    *("completions", "responses", "solutions", "generations", "outputs", "preds", "predictions"),
    *("extracted_answers", "finish_reasons", "stop_reasons"),
)


def values(row: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """The values of a row's columns, in which the texts that stand for lists are lists.

    `names` are the columns' names in the file. A text is one if it is JSON, or what Python prints,
    of a list in a column of verdicts, or of completions under a plural name, or of a turn of the
    model or a conversation with one. What belongs to completions is a list only if they are.
    """
    read = {name: _parsed_list(row.get(name)) for name in ("correct", "reward", "completion")}
    turns = read["completion"]
    if not (_is_plural("completion", names) or _has_turn_of_model(turns)):
        read["completion"] = None
    if read["completion"] is not None or isinstance(row.get("completion"), list):
        others = [name for name in ("extracted", "finish") if _is_plural(name, names)]
        read |= {name: _parsed_list(row.get(name)) for name in others}
    return row | {name: value for name, value in read.items() if value is not None}


def parsed(text: str) -> Any:
    """The value that a text is the JSON of, or what Python prints of it; None if of neither."""
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return None


def _is_plural(column: str, names: dict[str, str]) -> bool:
    return names.get(column) in _LISTED


def _parsed_list(value: Any) -> Any:
    """The list, or the object, that a text stands for; None if it stands for none."""
    if not isinstance(value, str) or value[:1] not in ("[", "{"):
        return None
    return parsed(value) or None


def _has_turn_of_model(value: Any) -> bool:
    turns = value if isinstance(value, list) else [value]
    return any(spoken.is_of_model(one) and {"content", "value"} & set(one) for one in turns)

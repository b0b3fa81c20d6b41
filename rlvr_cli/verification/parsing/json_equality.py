"""Which JSON values are equal: one text for all that are."""

import json
from dataclasses import dataclass
from typing import Any

from rlvr_cli.verification.parsing import squad_tokens


@dataclass(frozen=True)
class Leniency:
    """What does not count: the order of lists; case, spaces and punctuation of texts."""

    lists: bool = False
    strings: bool = False


def canonical(value: Any, lenient: Leniency) -> str:
    """A text that two values share if they are equal: numbers by value, objects in any order.

    1 equals 1.0, and neither true nor "1". Values are those that `json_text.read` returns.
    """
    if isinstance(value, dict):
        pairs = sorted(
            f"{json.dumps(key)}:{canonical(item, lenient)}" for key, item in value.items()
        )
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list):
        items = [canonical(item, lenient) for item in value]
        return "[" + ",".join(sorted(items) if lenient.lists else items) + "]"
    if isinstance(value, str) and lenient.strings:
        return json.dumps("".join(squad_tokens.words(value)) or value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value)

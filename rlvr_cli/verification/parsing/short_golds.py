"""The golds of a prompt: one text, or several, any of which counts."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

_LISTS = ("target", "targets", "golden_answers", "answers", "text", "aliases", "value")
"""The keys of what other tools store as a gold: Search-R1, FlashRAG, SQuAD, TriviaQA."""


class Unreadable(Exception):
    """Why a gold cannot be read."""


def texts(answer: str, extra: Mapping[str, Any], names: Iterable[str] = ()) -> list[str]:
    """The golds of `answer`, and of those lists in `extra` that are named; at least one.

    `answer` is text, a JSON list of texts, or a JSON object with such a list under one of `_LISTS`.
    Raises Unreadable where there is none, or where a list holds what is neither text nor number.
    """
    golds = list(_of(_parsed(answer)))
    for name in names:
        if extra.get(name) is not None:
            golds += _of(extra[name])
    if not golds:
        raise Unreadable("it is an empty list: a question without an answer has none to compare")
    if not any(map(str.strip, golds)):
        raise Unreadable("it is empty")
    return list(dict.fromkeys(gold for gold in golds if gold.strip()))


def _parsed(answer: str) -> Any:
    """The list or the object that an answer holds, else the answer."""
    start = answer.lstrip()[:2]
    if start[:1] not in ("[", "{"):
        return answer
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        if start in ("['", '["'):
            raise Unreadable("it begins as a list and is no JSON list") from None
        return answer
    return value if isinstance(value, list | dict) else answer


def _of(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        known = [name for name in _LISTS if value.get(name) is not None]
        if not known:
            raise Unreadable(f"it is an object with none of {', '.join(_LISTS)}")
        for name in known:
            yield from _of(value[name])
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, list | dict) or item is None:
                raise Unreadable(f"its list holds {json.dumps(item)[:60]}, a text was expected")
            yield _text(item)
    else:
        yield _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)

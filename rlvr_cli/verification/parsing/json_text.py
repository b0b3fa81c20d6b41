"""JSON as a model writes it: the part of a completion that is JSON, read strictly (RFC 8259)."""

import json
import math
import re
from typing import Any, NoReturn

from rlvr_cli.verification.parsing import end_tokens, fences

MOST = 200_000  # characters
_DEEPEST = 100  # lists and objects within one another
_ANSWER = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL | re.IGNORECASE)
_COMMA = re.compile(r",\s*[\]}]")


class NotJson(Exception):
    """Why a text is no JSON that can be read."""


def candidate(text: str, languages: tuple[str, ...] = ()) -> str:
    """The part of a completion that is to be JSON.

    The last `<answer>`; within it, or the full text, the last block that is fenced as `json`, else
    the last that is fenced without a language, else the last in one of `languages`, else all of it.
    """
    text = end_tokens.stripped(text)
    if answers := _ANSWER.findall(text):
        text = answers[-1]
    blocks = fences.blocks(text)
    for names in (("json", "jsonc", "json5"), ("",), languages):
        if named := [block for block in blocks if block.language in names]:
            last = named[-1]
            return last.text if last.is_closed else last.text.rstrip().removesuffix("```")
    return text


def read(text: str) -> Any:
    """The value that a text is as JSON, and nothing else. Raises NotJson.

    Refused: a key that an object has twice, NaN and infinities, numbers beyond a double, comments,
    trailing commas, single quotes, text around the value, and more than 100 levels of nesting.
    """
    if not text.strip():
        raise NotJson("it is empty")
    if len(text) > MOST:
        raise NotJson(f"it has more than {MOST} characters")
    text = text.strip().removeprefix("\ufeff")
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_float=_float,
        )
    except json.JSONDecodeError as error:
        raise NotJson(_explained(text, error)) from error
    except RecursionError as error:
        raise NotJson(f"it is nested more than {_DEEPEST} deep") from error
    except ValueError as error:  # more digits than Python reads
        raise NotJson("it holds a number of more than 4,300 digits") from error
    _check_depth(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, item in pairs:
        if key in value:
            raise NotJson(f"it has the key {json.dumps(key[:60])} twice")
        value[key] = item
    return value


def _constant(name: str) -> NoReturn:
    raise NotJson(f"it holds {name}, which is no JSON")


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise NotJson(f"it holds the number {text[:20]}, which no double can hold")
    return number


def _explained(text: str, error: json.JSONDecodeError) -> str:
    place = f"line {error.lineno}, column {error.colno}"
    around = text[max(0, error.pos - 2) : error.pos + 2]
    begins = max(0, error.pos - 1), error.pos  # the comma, which Python 3.13 points to itself
    if _COMMA.search(around) or any(_COMMA.match(text, begin) for begin in begins):
        return f"it is no JSON: a comma before a closing bracket ({place})"
    if error.msg == "Extra data":
        return f"it is no JSON: text follows the value ({place})"
    return f"it is no JSON: {error.msg} ({place})"


def _check_depth(value: Any) -> None:
    level, depth = [value], 0
    while level := [item for item in level if isinstance(item, list | dict)]:
        depth += 1
        if depth > _DEEPEST:
            raise NotJson(f"it is nested more than {_DEEPEST} deep")
        level = [
            inner for item in level for inner in (item.values() if isinstance(item, dict) else item)
        ]

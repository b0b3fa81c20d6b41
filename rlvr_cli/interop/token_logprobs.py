"""The log-probs of a completion's tokens, as servers and trainers store them with its text."""

import math
from dataclasses import dataclass
from typing import Any

from rlvr_cli.interop import readers

# verl, slime; prime-rl, verifiers; OpenAI and vLLM (an object or a list); SGLang.
_LOGPROBS = (
    *("rollout_log_probs", "rollout_logprobs", "completion_logprobs", "sampling_logprobs"),
    *("token_logprobs", "logprobs", "output_token_logprobs", "meta_info.output_token_logprobs"),
)
_IDS = (
    *("completion_ids", "completion_token_ids", "response_ids", "response_token_ids"),
    *("output_token_ids", "output_ids", "token_ids"),
)
NAMES = _LOGPROBS + _IDS
_ROUNDING = 1e-4  # nats above 0 of a certain token


@dataclass(frozen=True)
class Sampled:
    """The log-probs of a completion's tokens in nats, with their ids or texts if known."""

    logp: list[float]
    token_ids: list[int] | None = None
    texts: list[str] | None = None


def read(row: dict[str, Any], number: int = 0, of: int = 1) -> Sampled | None:
    """Those of completion `number` of the `of` that a row holds; None where it has none.

    A ValueError where the list holds something else. A number or a flag is none
    (a sum, or what a request asked for), and so is an empty list.
    """
    for name in _LOGPROBS:
        value = readers.look_up(row, name)
        is_there = isinstance(value, list | dict) and value
        sampled = _parsed(_one(value, number, of)) if is_there else None
        if sampled and sampled.logp:
            ids = next((ids for key in _IDS if (ids := _one(row.get(key), number, of))), None)
            return sampled if ids is None else _with_ids(sampled, ids)
    return None


def _one(value: Any, number: int, of: int) -> Any:
    """A completion's share of what a row of several has in a list."""
    if value is None:
        return value
    if of == 1:
        return value[0] if _is_list_of_one(value) else value
    if isinstance(value, list) and len(value) == of and isinstance(value[number], list | dict):
        return value[number]
    raise ValueError(f"is not a list for each of {of} completions")


def _is_list_of_one(value: Any) -> bool:
    """Whether it is the list of one completion in a list, and not SGLang's of one token."""
    if not (isinstance(value, list) and len(value) == 1 and isinstance(value[0], list)):
        return False
    is_triple = len(value[0]) == 3 and isinstance(value[0][2], str | None)
    return not is_triple


def _parsed(value: list[Any] | dict[str, Any]) -> Sampled | None:
    """A list of numbers; OpenAI's `content` or `token_logprobs`; SGLang's [logprob, id, text]."""
    if isinstance(value, dict):
        if isinstance(value.get("token_logprobs"), list):
            return Sampled(_numbers(value["token_logprobs"]), texts=_texts(value.get("tokens")))
        value = value.get("content") or []
    if value and all(isinstance(each, dict) and "logprob" in each for each in value):
        texts = _texts([each.get("token") for each in value])
        return Sampled(_numbers([each["logprob"] for each in value]), texts=texts)
    if value and all(isinstance(each, list | tuple) and len(each) == 3 for each in value):
        return _with_ids(Sampled(_numbers([each[0] for each in value])), [e[1] for e in value])
    return Sampled(_numbers(value))


def _numbers(values: list[Any]) -> list[float]:
    for value in values:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not -math.inf < value <= _ROUNDING:
            raise ValueError(f"has {str(value)[:40]} among its log-probs, which is not one")
    return [float(value) for value in values]


def _texts(values: Any) -> list[str] | None:
    is_text = isinstance(values, list) and all(isinstance(value, str) for value in values)
    return values if is_text else None


def _with_ids(sampled: Sampled | None, ids: Any) -> Sampled | None:
    if sampled is None:
        return None
    is_ids = isinstance(ids, list) and all(type(each) is int and each >= 0 for each in ids)
    if not is_ids or len(ids) != len(sampled.logp):
        size = len(ids) if isinstance(ids, list) else "no list of"
        raise ValueError(f"has {len(sampled.logp)} log-probs and {size} token ids")
    return Sampled(sampled.logp, ids, sampled.texts)

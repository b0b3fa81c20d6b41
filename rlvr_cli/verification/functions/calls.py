"""Calls a reward function in its own style, and awaits it if it is asynchronous."""

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Any

from rlvr_cli.protocols import Group
from rlvr_cli.verification.functions.signatures import (
    GOLDS,
    LOGGING,
    OF_TRL,
    SOLUTIONS,
    Form,
    Signature,
)

Messages = list[dict[str, Any]]


def call(function: Callable[..., Any], signature: Signature, group: Group, form: Form) -> Any:
    """What a function returns for a group; of one that takes one completion, for its first.

    `form` is that of the completions in TRL's style.
    """
    given = _ARGUMENTS[signature.style](signature, group, form)
    if not signature.takes_all:
        given = {name: value for name, value in given.items() if name in signature.names}
    return awaited(function(**given))


def awaited(returned: Any) -> Any:
    """A value, or what a coroutine gives; all of a process run in one loop, as clients expect."""
    return _loop().run_until_complete(returned) if inspect.isawaitable(returned) else returned


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def form_of(group: Group, signature: Signature, chosen: str) -> Form:
    """The form that was chosen, or else that of the annotation, or else that of the prompt."""
    if chosen in ("text", "messages"):
        return "messages" if chosen == "messages" else "text"
    return signature.form or ("text" if isinstance(group.messages, str) else "messages")


def columns_of(group: Group) -> dict[str, Any]:
    """What is stored of a prompt, by name; the gold answer under each name that is free."""
    return {name: group.answer for name in GOLDS} | group.extra


def _of_trl(signature: Signature, group: Group, form: Form) -> dict[str, Any]:
    count, texts = len(group.completions), group.completions
    is_chat = form == "messages"
    given: dict[str, Any] = {
        "prompts": [_messages(group.messages) if is_chat else _text(group.messages)] * count,
        "completions": [
            [{"role": "assistant", "content": text}] if is_chat else text for text in texts
        ],
    }
    if group.token_ids is not None:
        given["completion_ids"] = [list(ids) for ids in group.token_ids]
    columns = {"answer": group.answer} | group.extra
    columns = {k: v for k, v in columns.items() if k not in (*OF_TRL, "prompt", "completion")}
    named = columns_of(group)
    columns |= {name: named[name] for name in signature.names if name in named}
    given |= {name: [value] * count for name, value in columns.items()}
    return given | {name: _ignore for name in LOGGING if name in signature.names}


def _ignore(*_: Any, **__: Any) -> None:
    """What a function logs has no place to go."""


def _of_verl(signature: Signature, group: Group, form: Form) -> dict[str, Any]:
    source, gold, info = _sources(group)
    given = {"data_source": source, "ground_truth": gold, "extra_info": info}
    named = [name for name in SOLUTIONS if name in signature.names]
    return given | {name: group.completions[0] for name in named}


def _of_verl_batch(signature: Signature, group: Group, form: Form) -> dict[str, Any]:
    count = len(group.completions)
    source, gold, info = _sources(group)
    return {
        "data_sources": [source] * count,
        "solution_strs": list(group.completions),
        "ground_truths": [gold] * count,
        "extra_infos": [info] * count,
    }


def _sources(group: Group) -> tuple[Any, Any, Any]:
    """verl's data source, ground truth and `extra_info`, which is all of a prompt's columns if it
    has none of that name."""
    info = group.extra.get("extra_info", group.extra)
    return group.extra.get("data_source", group.source), group.answer, info


def _of_open_instruct(signature: Signature, group: Group, form: Form) -> dict[str, Any]:
    tokens = None if group.token_ids is None else list(group.token_ids[0])
    return {
        "tokenized_prediction": tokens,
        "prediction": group.completions[0],
        "label": group.answer,
        "query": _text(group.messages),
    }


def _text(messages: Any) -> str:
    """A prompt of raw text, or the last turn of a chat."""
    content = messages if isinstance(messages, str) else messages[-1]["content"]
    if not isinstance(content, list):
        return str(content)
    return "".join(part["text"] for part in content if part["type"] == "text")


def _messages(messages: Any) -> Messages:
    return [{"role": "user", "content": messages}] if isinstance(messages, str) else messages


_ARGUMENTS: dict[str, Callable[[Signature, Group, Form], dict[str, Any]]] = {
    "trl": _of_trl,
    "verl": _of_verl,
    "verl-batch": _of_verl_batch,
    "open-instruct": _of_open_instruct,
}

"""The text that a model wrote, out of messages, content parts and responses of servers.

A completion of messages is its assistant's turns; the turns of tools and users are not the model's.
Reasoning that a server keeps apart is put in front, as `<think>...</think>`, where the chat
templates of Qwen3 and DeepSeek-R1 have it and where verifiers read no answer.
"""

from typing import Any

from rlvr_cli.interop.readers import look_up

MODEL = ("assistant", "gpt", "model", "bot", "chatbot", "ai")
_OTHERS = (
    *("user", "human", "system", "developer", "tool", "function", "environment", "ipython"),
    *("observation", "tool_response", "tool_result"),
)
_REASONING = ("reasoning_content", "reasoning", "thinking")
_TEXT_PARTS = ("text", "output_text", "refusal")
_THOUGHT_PARTS = ("thinking", "reasoning", "reasoning_text", "summary_text")
# Calls have no text, and encrypted thoughts cannot be read; what a call gave is not the model's.
_SILENT_PARTS = (
    *("tool_use", "tool_call", "tool-call", "server_tool_use", "function_call", "tool_result"),
    *("redacted_thinking", "web_search_tool_result"),
)
_BETWEEN_TURNS = "\n\n"


class Unreadable(ValueError):
    """A value that is not text, with the reason and what to do about it."""

    hint = "write its text, or name another column with --completion-column"


class Failed(Unreadable):
    """A request that a server did not answer."""

    hint = "ask for it again, or remove the row"


class Ambiguous(Unreadable):
    """Turns that may be one completion or several."""

    hint = "put the turns of each completion into a list of its own"


def texts(value: Any) -> Any:
    """The text of a completion, None where it has none; of a list of completions a list of them.

    An `Unreadable` for what is neither text nor messages.
    """
    if isinstance(value, list) and not _is_one(value):
        if value and all(isinstance(item, dict) and _is_turn(item) for item in value):
            raise Ambiguous(
                f"{len(value)} turns of the assistant one after the other, which may be one "
                "completion or several"
            )
        return [_text(item) for item in value]
    return _text(value)


def _is_one(items: list[Any]) -> bool:
    """Whether a list is one completion: a conversation, or the parts of one message."""
    if not items or not all(isinstance(item, dict) for item in items):
        return False
    if all(_role(item) is not None for item in items):
        return len(items) == 1 or any(_role(item) not in MODEL for item in items)
    return all(_is_part(item) for item in items) or (len(items) == 1 and _is_turn(items[0]))


def is_of_model(message: Any) -> bool:
    """Whether a value is a message that the model wrote, by its role."""
    return isinstance(message, dict) and _role(message) in MODEL


def _role(message: Any) -> Any:
    return message.get("role") or message.get("from")


def _is_turn(item: dict[str, Any]) -> bool:
    return _role(item) is not None or bool({"content", "value", "parts"} & set(item))


def _is_part(item: dict[str, Any]) -> bool:
    return _role(item) is None and "content" not in item and "message" not in item and (
        item.get("type") in (*_TEXT_PARTS, *_THOUGHT_PARTS, *_SILENT_PARTS)
    )  # fmt: skip


def _text(value: Any) -> str | None:
    """The text of one completion."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return None if value != value else str(value)
    if isinstance(value, list):
        if value and all(isinstance(item, dict) and _role(item) is not None for item in value):
            return _conversation(value)
        if _is_one(value):
            return _message(value[0] if _is_turn(value[0]) else {"content": value})
        raise Unreadable(f"a list of {len(value)} that is not a conversation")
    if isinstance(value, dict):
        if _is_turn(value):
            return _message(value)
        if "text" in value or "generated_text" in value:  # of completions without a chat
            return _text(value.get("text", value.get("generated_text")))
        raise Unreadable(f"an object with {', '.join(map(str, value)) or 'nothing in it'}")
    raise Unreadable(f"{value!r}")


def _conversation(messages: list[dict[str, Any]]) -> str:
    """The assistant's turns, those without text left out."""
    for message in messages:
        if _role(message) not in (*MODEL, *_OTHERS):
            raise Unreadable(f"a message of the role `{_role(message)}`")
    turns = [_message(message) for message in messages if _role(message) in MODEL]
    if not turns:
        roles = ", ".join(dict.fromkeys(str(_role(message)) for message in messages))
        raise Unreadable(f"a conversation without a turn of the assistant, of {roles}")
    return _BETWEEN_TURNS.join(text for text in turns if text)


def _message(message: dict[str, Any]) -> str:
    """The text of a message: null is none, and so is a call of a tool."""
    content = next((message[n] for n in ("content", "value", "parts") if message.get(n)), "")
    parts = content if isinstance(content, list) else [content]
    spoken: list[str] = []
    thought: list[str] = []
    for part in parts:
        kind, text = _part(part)
        (thought if kind == "thought" else spoken).append(text)
    if not thought:
        apart = next((message[name] for name in _REASONING if message.get(name)), None)
        thought = [_plain(apart)] if apart else []
    answer = "".join(spoken) or _plain(message.get("refusal"))
    thoughts = "\n".join(text for text in thought if text)
    if not thoughts:
        return answer
    if not answer:  # it ended, or was cut, in its thoughts
        return f"<think>\n{thoughts}"
    return f"<think>\n{thoughts}\n</think>\n\n{answer}"


def _part(part: Any) -> tuple[str, str]:
    """Whether a part of a content is `said` or `thought`, and its text."""
    if part is None or isinstance(part, str):
        return "said", part or ""
    if not isinstance(part, dict):
        raise Unreadable(f"a content of {type(part).__name__}: {part!r}")
    kind = part.get("type")
    if kind in _SILENT_PARTS or part.get("functionCall") or part.get("function_call"):
        return "said", ""
    if kind in _THOUGHT_PARTS:
        names = ("thinking", "reasoning", "text", "summary")
        return "thought", _plain(next((part[name] for name in names if part.get(name)), None))
    if kind in _TEXT_PARTS or (kind is None and isinstance(part.get("text"), str)):
        text = _plain(part.get("refusal") if kind == "refusal" else part.get("text"))
        return ("thought" if part.get("thought") else "said"), text  # the mark of Gemini's thoughts
    raise Unreadable(f"a part of the kind `{kind or ', '.join(map(str, part))}`")


def _plain(value: Any) -> str:
    """Text, or the texts of a list of parts."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        return "".join(_part(part)[1] for part in value)
    raise Unreadable(f"thoughts that are not text: {value!r}")


def unpacked(row: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """A row with a server's response as its completion, or that is one, with messages and reasons.

    `names` are the columns of completions. Other rows stay as they are. An `Unreadable` for a
    response that failed.
    """
    values = ((name, look_up(row, name) if "." in name else row.get(name)) for name in names)
    name, value = next(((n, value) for n, value in values if value is not None), (None, row))
    if row.get("object") == "response":  # which has fields `output` and `text` of its own
        name, value = None, row
    if not isinstance(value, dict | list):
        return row
    if name is None and "custom_id" in row:
        value = _of_batch(row)
    reply = _reply(value)
    if reply is None:
        return row
    completions, reasons = reply
    unpacked = {name or "completion": completions if len(completions) > 1 else completions[0]}
    if row.get("finish_reason") is None:
        unpacked["finish_reason"] = reasons if len(completions) > 1 else reasons[0]
    return row | unpacked | _of_tokens(row, _choices(value), len(completions))


def _of_tokens(row: dict[str, Any], choices: list[dict[str, Any]], count: int) -> dict[str, Any]:
    """The log-probs and token ids that choices have and the row has not."""
    fields: dict[str, Any] = {}
    for name in ("logprobs", "token_ids"):
        values = [one.get(name) for one in choices]
        if row.get(name) is None and len(values) == count and values != [None] * count:
            fields[name] = values if count > 1 else values[0]
    return fields


def _of_batch(row: dict[str, Any]) -> Any:
    """The response in a line of a batch, of Anthropic's too; OpenAI's has it in `response`."""
    result = row.get("result")
    message = result.get("message") if isinstance(result, dict) else None
    if row.get("error") or (isinstance(result, dict) and not message):
        raise Failed(f"an error and no completion: {str(row.get('error') or result)[:80]}")
    return message or row


def _reply(value: Any) -> tuple[list[Any], list[Any]] | None:
    """The message and the finish reason of each choice of a response; None for anything else."""
    if isinstance(value, list):
        if _are_choices(value):
            return _listed(value)
        return ([[_of_items(value)]], [None]) if _are_items(value) else _of_each(value)
    if choices := _choices(value):
        return _listed(choices)
    if isinstance(value.get("body"), dict):  # of a batch
        value = value["body"]
    if value.get("object") == "response" and isinstance(value.get("output"), list):
        return [[_of_items(value["output"])]], [value.get("status")]
    if (
        isinstance(candidates := value.get("candidates"), list)
        and candidates
        and "text" not in value
    ):
        completions = [[one["content"]] if one.get("content") else None for one in candidates]
        return completions, [one.get("finishReason") for one in candidates]
    if value.get("type") == "message" and isinstance(value.get("content"), list):
        return [[value]], [value.get("stop_reason")]
    if value.get("error") and set(value) <= {"error", "status_code", "request_id", "body", "id"}:
        raise Failed(f"an error and no completion: {str(value['error'])[:80]}")
    return None


def _choices(value: Any) -> list[dict[str, Any]]:
    """The choices of a response or of several, after each other; empty where it has none."""
    if isinstance(value, list):
        return value if _are_choices(value) else [one for each in value for one in _choices(each)]
    if not isinstance(value, dict):
        return []
    if isinstance(value.get("body"), dict):  # of a batch
        value = value["body"]
    return next((value[n] for n in ("choices", "outputs") if _are_choices(value.get(n))), [])


def _are_choices(value: Any) -> bool:
    return bool(value) and isinstance(value, list) and all(
        isinstance(one, dict) and ("message" in one or {"text", "finish_reason"} <= set(one))
        for one in value
    )  # fmt: skip


def _of_each(responses: list[Any]) -> tuple[list[Any], list[Any]] | None:
    """Those of several responses with one choice each; None if that is not what they are."""
    if not responses or not all(isinstance(one, dict) for one in responses):
        return None
    replies = [_reply(one) for one in responses]
    if not all(reply and len(reply[0]) == 1 for reply in replies):
        return None
    return [r[0][0] for r in replies if r], [r[1][0] for r in replies if r]


def _listed(choices: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """The choices of a chat, or of a completion of text."""
    completions = [[one["message"]] if one.get("message") else one.get("text") for one in choices]
    return completions, [one.get("finish_reason") for one in choices]


def _are_items(value: list[Any]) -> bool:
    """Whether a list is the output of the Responses API, whose items have types and states."""
    return all(isinstance(one, dict) and "type" in one for one in value) and any(
        one["type"] == "reasoning" or "status" in one for one in value
    )


def _of_items(items: list[dict[str, Any]]) -> dict[str, Any]:
    """The output of the Responses API as one message."""
    parts: list[Any] = []
    for item in items:
        if item.get("type") == "message":
            content = item.get("content") or []
            parts += content if isinstance(content, list) else [content]
        elif item.get("type") == "reasoning":
            parts += item.get("content") or item.get("summary") or []
    return {"role": "assistant", "content": parts}

"""Conversations as text: messages, content parts and tool calls, under the names tools use."""

import json
import re
from typing import Any

_SHA256 = re.compile(r"[0-9a-f]{64}")
_ROLES = ("role", "from")
_CONTENTS = ("content", "value")


def turns(prompt: Any) -> list[tuple[str, str]]:
    """Role and text of each message; a text that holds no messages is the prompt's own.

    Messages may be those of a chat (`role`, `content`) or of ShareGPT (`from`, `value`), as a list
    or as its JSON. Anything else is shown as JSON.
    """
    if prompt is None or prompt == "":
        return []
    if isinstance(prompt, str):
        messages = _parsed(prompt)
        return turns(messages) if messages is not None else [("prompt", prompt)]
    if isinstance(prompt, dict) and _is_message(prompt):
        prompt = [prompt]
    if isinstance(prompt, list) and prompt and all(map(_is_message, prompt)):
        return [(_first(message, _ROLES) or "message", _message(message)) for message in prompt]
    return [("prompt", text(prompt))]


def images(prompt: Any) -> list[list[str]]:
    """The sha256 of the stored images of each of the `turns` of a stored prompt, in order."""
    if not (isinstance(prompt, list) and prompt and all(map(_is_message, prompt))):
        return [[] for _ in turns(prompt)]
    return [
        [part["image"] for part in content if _is_stored_image(part)]
        if isinstance(content := message.get("content"), list)
        else []
        for message in prompt
    ]


def placeholder(sha256: str) -> str:
    """The placeholder of a stored image in the text of a turn."""
    return f"[image {sha256[:12]}]"


def fingerprint(prompt: Any) -> int:
    """A hash of a prompt's texts, in whatever shape it is stored; valid only in this process."""
    return hash(tuple(said for _, said in turns(prompt)))


def text(content: Any) -> str:
    """A message's content as text: its parts one after the other, of other kinds their names."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    if isinstance(content, list):
        return "\n".join(text(part) for part in content)
    if isinstance(content, dict):
        if _is_stored_image(content):
            return placeholder(content["image"])
        written = content.get("text", content.get("thinking", content.get("refusal")))
        if isinstance(written, str):
            return written
        if kind := content.get("type"):
            return f"[{kind}{_place(content.get(kind))}]"
    return json.dumps(content, ensure_ascii=False, default=str)


def _message(message: dict[str, Any]) -> str:
    thoughts = message.get("reasoning_content")
    parts = [thoughts] if isinstance(thoughts, str) and thoughts else []
    parts.append(text(next((message[n] for n in _CONTENTS if n in message), None)))
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function", call) if isinstance(call, dict) else {}
        called = function if isinstance(function, dict) else {}
        parts.append(f"[call {called.get('name')}: {text(called.get('arguments'))}]")
    return "\n".join(part for part in parts if part)


def _place(value: Any) -> str:
    """Where a part that is no text is stored; of one in the message itself, nothing."""
    url = value.get("url") if isinstance(value, dict) else value
    return f" {url}" if isinstance(url, str) and not url.startswith("data:") else ""


def _is_stored_image(part: Any) -> bool:
    named = isinstance(part, dict) and part.get("type") == "image"
    return bool(named and isinstance(part.get("image"), str) and _SHA256.fullmatch(part["image"]))


def _parsed(prompt: str) -> Any:
    """The messages that a text is the JSON of; None if it is none."""
    if not prompt.lstrip().startswith("[{"):
        return None
    try:
        value = json.loads(prompt)
    except (ValueError, RecursionError):
        return None
    return value if value and all(map(_is_message, value)) else None


def _is_message(value: Any) -> bool:
    named = isinstance(value, dict) and any(isinstance(value.get(n), str) for n in _ROLES)
    return named and any(n in value for n in (*_CONTENTS, "tool_calls"))


def _first(message: dict[str, Any], names: tuple[str, ...]) -> str | None:
    return next((message[n] for n in names if isinstance(message.get(n), str)), None)

"""Prompts as data sets hold them: raw text, or messages in the shapes that tools write.

It reads role and content, where content may be a list of parts; ShareGPT's from and value; and a
single message. Anything else is refused.

A content that has images is a list of `{"type": "text", "text": ...}` and `{"type": "image",
"image": ...}`; any other is a string. A stored image is its sha256; one of a data set is its value
there, or None if it comes from the row's column of images. It reads OpenAI's `image_url`
and `input_image`, Hugging Face's `image` with a value under one of several names or with none,
Anthropic's `source`, LLaMA-Factory's parts with a `value`, and parts without a type that hold
`image` alone.
"""

import ast
import json
import re
from typing import Any

from rlvr_cli.errors import DataError

Message = dict[str, Any]
Prompt = str | list[Message]

_SHAREGPT = {
    "system": "system", "human": "user", "user": "user", "gpt": "assistant",
    "assistant": "assistant", "chatgpt": "assistant", "bing": "assistant", "bard": "assistant",
    "model": "assistant", "tool": "tool", "observation": "tool", "function_response": "tool",
}  # fmt: skip
_IMAGE_TYPES = ("image", "image_url", "input_image")
_IMAGE_NAMES = ("image", "image_url", "url", "path", "base64", "data", "value")
_PYTHON = re.compile(r"\s*\[\{'(?:role|content|from|value)':")
_TEXT_NAMES = ("text", "value")
_HINT = 'write messages as in [{"role": "user", "content": "..."}], or plain text'
_DROP = "leave its last turn out with `rlvr prompts ... --drop-answer-turn`"


def read(value: Any, name: str) -> tuple[Prompt, str | None]:
    """A prompt as text or as messages of role and content, and the shape that it was read from.

    The shape is None where nothing had to be converted. `name` is the prompt's, for errors.
    """
    if isinstance(value, str):
        listed = _listed(value)
        if listed is not None:
            return _messages(listed, name), "JSON text"
        if not _PYTHON.match(value):
            return value, None
        return _messages(_of_python(value, name), name), "messages in Python's spelling"
    if isinstance(value, dict):
        for key in ("messages", "conversations", "conversation"):
            if isinstance(value.get(key), list):
                return _messages(value[key], name), f"an object with `{key}`"
        return _messages([value], name), "one message"
    if not isinstance(value, list):
        raise DataError(f"prompt `{name}` is {_short(value)}: no text and no messages", _HINT)
    shape = "ShareGPT's from and value" if any(_is_sharegpt(message) for message in value) else None
    return _messages(value, name), shape


def _listed(text: str) -> list[Any] | None:
    """The messages that a text is the JSON of, as in a cell of a CSV file; None if it is none."""
    if not text.lstrip().startswith("[{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    keys = ({"role", "content"}, {"from", "value"})
    are = all(isinstance(m, dict) and any(k <= m.keys() for k in keys) for m in value)
    return value if are else None


def _of_python(text: str, name: str) -> list[Any]:
    """The messages in Python's spelling, as pandas writes them into a CSV file."""
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
        raise DataError(
            f"prompt `{name}` is messages in Python's spelling that cannot be read: {_short(text)}",
            "store them as JSON, or in Parquet",
        ) from error
    return value if isinstance(value, list) else [value]


def _messages(values: list[Any], name: str) -> list[Message]:
    if not values:
        raise DataError(f"prompt `{name}` is an empty list of messages", "remove it")
    return [_message(value, name) for value in values]


def _message(value: Any, name: str) -> Message:
    if _is_sharegpt(value):
        speaker = str(value["from"])
        if speaker.lower() not in _SHAREGPT:
            raise DataError(
                f"prompt `{name}` has a turn from `{speaker}`, which is not a known role",
                f"the known ones are {', '.join(_SHAREGPT)}",
            )
        value = {"role": _SHAREGPT[speaker.lower()], "content": value["value"]}
    if not isinstance(value, dict) or not isinstance(value.get("role"), str):
        raise DataError(f"prompt `{name}` holds {_short(value)}: no message with a role", _HINT)
    if "content" not in value and not value.get("tool_calls"):
        raise DataError(f"prompt `{name}` has a {value['role']} turn without content", _HINT)
    # Parquet gives every message the keys of all, and templates ask whether a key is defined.
    kept = {key: item for key, item in value.items() if item is not None}
    if isinstance(kept.get("content"), str | list):
        return kept | {"content": _content(kept["content"], name)}
    if "content" in kept:
        raise DataError(
            f"prompt `{name}` has a turn whose content is {_short(kept['content'])}", _HINT
        )
    return kept | {"content": None}  # of a turn that calls tools: templates ask for it


def _content(content: Any, name: str) -> str | list[dict[str, Any]]:
    """Text, or that of parts of text; parts if some are images. Other kinds are refused."""
    if isinstance(content, str):
        return content
    parts: list[dict[str, Any]] = []
    for part in content:
        if isinstance(part, dict) and is_image(part):
            parts.append({"type": "image", "image": image_reference(part)})
            continue
        is_text = isinstance(part, dict) and part.get("type", "text") in ("text", "input_text")
        values = [part] if isinstance(part, str) else [part.get(n) for n in _TEXT_NAMES if is_text]
        text = next((value for value in values if value is not None), None)
        if not isinstance(text, str):
            kind = None if is_text or not isinstance(part, dict) else part.get("type")
            raise DataError(
                f"prompt `{name}` holds {f'a part of type `{kind}`' if kind else _short(part)}",
                "rlvr reads only text and images: remove the prompt",
            )
        parts.append({"type": "text", "text": text})
    return merged(parts)


def is_image(part: dict[str, Any]) -> bool:
    """Whether a part of a message's content is an image."""
    kind = part.get("type")
    if kind is None:
        return part.get("text") is None and any(part.get(name) for name in ("image", "image_url"))
    return kind in _IMAGE_TYPES


def image_reference(part: dict[str, Any]) -> Any:
    """What names the image of a part: bytes, a path, a URL, a struct; None of a placeholder."""
    if isinstance(part.get("source"), dict):
        part = part["source"]
    if part.get("bytes") is not None:
        return {"bytes": part["bytes"], "path": part.get("path")}
    name = next((name for name in _IMAGE_NAMES if part.get(name) is not None), None)
    if name is None:
        return None
    value = part[name]
    if isinstance(value, dict) and all(item is None for item in value.values()):
        return None  # Arrow gives every part the fields of all
    if name == "image_url" and isinstance(value, dict):
        return value.get("url")
    return f"data:;base64,{value}" if name in ("base64", "data") else value


def merged(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Parts with the texts that follow each other as one, and no empty one; text without images."""
    if not any(part["type"] == "image" for part in parts):
        return "".join(part["text"] for part in parts)
    kept: list[dict[str, Any]] = []
    for part in parts:
        if part["type"] == "text" and kept and kept[-1]["type"] == "text":
            kept[-1] = {"type": "text", "text": kept[-1]["text"] + part["text"]}
        elif part["type"] == "image" or part["text"]:
            kept.append(part)
    return kept


def text(content: Any) -> str:
    """The text of a message's content, without its images."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part["type"] == "text")
    return content or ""


def images(prompt: Prompt) -> list[Any]:
    """The images of a prompt in their order: as stored, the sha256 of each."""
    turns = [] if isinstance(prompt, str) else [turn["content"] for turn in prompt]
    parts = [part for content in turns if isinstance(content, list) for part in content]
    return [part["image"] for part in parts if part["type"] == "image"]


def with_text(content: Any, wanted: str) -> Any:
    """The content with another text; images stay where they are.

    Text to put around it goes before its first part and after its last. A text that is cut
    loses what comes first. Any other comes after the images.
    """
    if not isinstance(content, list):
        return wanted
    before, _, after = wanted.partition(old) if (old := text(content)) else (wanted, "", "")
    if old and old in wanted:
        texts = [i for i, part in enumerate(content) if part["type"] == "text"]
        around = {texts[0]: (before, "")} | {texts[-1]: ("", after)}
        if len(texts) == 1:
            around = {texts[0]: (before, after)}
        return [
            part | {"text": around[i][0] + part["text"] + around[i][1]} if i in around else part
            for i, part in enumerate(content)
        ]
    if not old.endswith(wanted):
        shown = [part for part in content if part["type"] == "image"]
        return merged([*shown, {"type": "text", "text": wanted}])
    cut = len(old) - len(wanted)
    parts = []
    for part in content:
        if part["type"] == "text":
            gone = min(cut, len(part["text"]))
            part, cut = part | {"text": part["text"][gone:]}, cut - gone
        parts.append(part)
    return merged(parts)


def _is_sharegpt(message: Any) -> bool:
    return isinstance(message, dict) and "role" not in message and {"from", "value"} <= set(message)


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return f"`{text[:60]}`" + ("..." if len(text) > 60 else "")


def stored(messages: str, name: str) -> Prompt:
    """The prompt of the `messages` column of a prompts directory; text there is text."""
    value = json.loads(messages)
    return value if isinstance(value, str) else read(value, name)[0]


def ends_with_answer(prompt: Prompt) -> bool:
    return not isinstance(prompt, str) and prompt[-1]["role"] == "assistant"


def refuse_answer(prompt: Prompt, name: str) -> None:
    """An error if the last turn is the assistant's: the policy would be shown the answer."""
    if ends_with_answer(prompt):
        raise DataError(
            f"prompt `{name}` ends with an assistant turn, so the policy would see the answer",
            _DROP,
        )


def without_answer(prompt: Prompt, name: str) -> Prompt:
    """The prompt without the assistant turns at its end."""
    if isinstance(prompt, str):
        return prompt
    turns = list(prompt)
    while turns and turns[-1]["role"] == "assistant":
        turns.pop()
    if not turns:
        raise DataError(
            f"prompt `{name}` has only assistant turns", "remove it, or name another column"
        )
    return turns


def question(prompt: Prompt) -> str:
    """The question: raw text, or the last user turn."""
    if isinstance(prompt, str):
        return prompt
    said = [message["content"] for message in prompt if message["role"] == "user"]
    return text((said or [prompt[-1]["content"]])[-1])

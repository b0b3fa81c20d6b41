"""The parts of a message that are images, as tools write them, and what names the image in them.

OpenAI's `image_url` and `input_image`, Hugging Face's `image` with a value under one of several
names or with none, Anthropic's `source`, and parts without a type that hold `image` alone.
"""

from typing import Any

_TYPES = ("image", "image_url", "input_image")
_NAMES = ("image", "image_url", "url", "path", "base64", "data")


def is_one(part: dict[str, Any]) -> bool:
    """Whether a part of a message's content is an image."""
    kind = part.get("type")
    if kind is None:
        return part.get("text") is None and any(part.get(name) for name in ("image", "image_url"))
    return kind in _TYPES


def reference(part: dict[str, Any]) -> Any:
    """What names the image of a part: bytes, a path, a URL, a struct; None of a placeholder."""
    if isinstance(part.get("source"), dict):
        part = part["source"]
    if part.get("bytes") is not None:
        return {"bytes": part["bytes"], "path": part.get("path")}
    name = next((name for name in _NAMES if part.get(name) is not None), None)
    if name is None:
        return None
    value = part[name]
    if isinstance(value, dict) and all(item is None for item in value.values()):
        return None  # Arrow gives every part the fields of all
    if name == "image_url" and isinstance(value, dict):
        return value.get("url")
    return f"data:;base64,{value}" if name in ("base64", "data") else value

"""What the formats share."""

import hashlib
import json
from typing import Any

Row = dict[str, Any]
NAMES = "_names"  # in a row that a reader made: what its file calls columns that are named anew


def named(prompt: Any) -> str:
    """An id for a prompt of a file that has none: by its text, so that equal ones are one."""
    text = prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True, default=str)
    return "prompt-" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def messages(prompt: Any) -> Any:
    """A prompt as a list of messages."""
    return prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt}]


def values(group: Row, name: str) -> list[Any]:
    """One field of each completion of a group."""
    return [completion.get(name) for completion in group["completions"]]

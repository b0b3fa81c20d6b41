"""What the formats share."""

import hashlib
import json
from typing import Any

from rlvr_cli.errors import DataError

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


def correct_by(name: str | None, value: Any) -> Row:
    """The verdict of a row, and what its file calls it; nothing where there is none."""
    return {} if name is None else {"correct": value, NAMES: {"correct": name}}


def rewarded_by(name: str, value: Any) -> Row:
    """The reward of a row, and what its file calls it."""
    return {"reward": value, NAMES: {"reward": name}}


def is_pass(status: Any, file: str, task: str, words: dict[str, bool]) -> bool | None:
    """Whether a program's status says that it passed, None for null; an error for other words."""
    if status is None:
        return None
    if status not in words:
        raise DataError(
            f"`{file}` has the status `{str(status)[:40]}` in `{task}`",
            f"it may be {', '.join(words)} or null",
        )
    return words[status]

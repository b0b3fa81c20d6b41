"""TRL: the Parquet files of `log_completions`, one completion a row with its rewards."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from rlvr_cli.interop.formats._common import NAMES, Row, images, messages, named, with_images

SUFFIX = ".parquet"
_MESSAGE = pa.struct([("role", pa.string()), ("content", pa.large_string())])
_OWN = ("step", "prompt", "completion", "advantage")
SCHEMA = pa.schema(
    [
        ("prompt_id", pa.string()),
        ("prompt", pa.list_(_MESSAGE)),
        ("completion", pa.list_(_MESSAGE)),
        ("solution", pa.large_string()),
        ("reward", pa.float64()),
        ("correct", pa.bool_()),
        ("extracted", pa.large_string()),
    ]
)
KEEPS_IMAGES = True
_PART = pa.struct([("type", pa.string()), ("text", pa.large_string())])
_TURN = pa.struct([("role", pa.string()), ("content", pa.list_(_PART))])
SCHEMA_WITH_IMAGES = with_images(SCHEMA.set(1, pa.field("prompt", pa.list_(_TURN))))


def recognises(names: set[str]) -> bool:
    """`prompt`, `completion` and `advantage`, and a column for each reward function."""
    return {"prompt", "completion", "advantage"} <= names and "prompt_id" not in names


def reader(file: str) -> Callable[[Row], list[Row]]:
    """Prompts have no id there, so equal ones are one; of several rewards none is taken.

    What is no text besides TRL's own columns is a reward.
    """
    names: list[list[str]] = []

    def read(row: Row) -> list[Row]:
        if not names:
            others = [name for name in row if name not in _OWN]
            names.append([name for name in others if not isinstance(row[name], str | list | dict)])
        [rewards] = names
        fields: Row = {"prompt_id": named(row["prompt"])}
        if len(rewards) == 1:
            fields |= {"reward": row[rewards[0]], NAMES: {"reward": rewards[0]}}
        return [row | fields]

    return read


def write(groups: Iterable[Row]) -> Iterator[Row]:
    """Conversational rows; `solution` is the name under which TRL's accuracy reward looks.

    Where prompts have images, which are in `images`, the content of their turns are parts.
    """
    for group in groups:
        prompt = messages(group["messages"])
        if "images" in group:
            prompt = [turn | {"content": _parts(turn.get("content"))} for turn in prompt]
        for completion in group["completions"]:
            yield {
                "prompt_id": group["prompt_id"],
                "prompt": prompt,
                "images": images(group),
                "completion": [{"role": "assistant", "content": completion["completion"]}],
                "solution": group["answer"],
                **{name: completion.get(name) for name in ("reward", "correct", "extracted")},
            }


def _parts(content: Any) -> list[Row]:
    """A turn's content as parts, those of images without their names."""
    if not isinstance(content, list):
        return [{"type": "text", "text": content or ""}]
    return [{"type": part["type"], "text": part.get("text")} for part in content]

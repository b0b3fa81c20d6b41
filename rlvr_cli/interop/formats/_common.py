"""What the formats share."""

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from rlvr_cli.errors import DataError
from rlvr_cli.storage.images import Image

IMAGES = pa.field("images", pa.list_(pa.struct([("bytes", pa.binary()), ("path", pa.string())])))
# By this `datasets` knows that the structs are images.
_FEATURES = {"info": {"features": {"images": {"_type": "List", "feature": {"_type": "Image"}}}}}
_MEDIA = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
PLACE = "<image>"
Row = dict[str, Any]
NAMES = "_names"  # in a row that a reader returned: the file's own names of renamed columns


def named(prompt: Any) -> str:
    """An id for a prompt of a file that has none: by its text, so that equal ones are one."""
    text = prompt if isinstance(prompt, str) else json.dumps(prompt, sort_keys=True, default=str)
    return "prompt-" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def messages(prompt: Any) -> Any:
    """A prompt as a list of messages."""
    return prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt}]


def with_images(schema: pa.Schema) -> pa.Schema:
    """A schema with the column `images`, which `datasets` reads as images."""
    return schema.append(IMAGES).with_metadata({"huggingface": json.dumps(_FEATURES)})


def images(group: Row) -> list[Row]:
    """The images of a group's prompt, as `datasets` stores them."""
    return [{"bytes": image.read(), "path": None} for image in group.get("images") or ()]


def with_places(prompt: Any, name: str) -> Any:
    """A prompt with `<image>` in its texts where an image is; an error if a text has one."""
    if not isinstance(prompt, list):
        return prompt
    if any(PLACE in part["text"] for part in _parts(prompt) if part["type"] == "text"):
        raise DataError(
            f"prompt `{name}` has `{PLACE}` in its text, which would be taken for an image",
            "use --format jsonl, whose images are parts of the messages",
        )
    return [
        turn | {"content": "".join(PLACE if p["type"] == "image" else p["text"] for p in parts)}
        if isinstance(parts := turn.get("content"), list)
        else turn
        for turn in prompt
    ]


def with_urls(prompt: Any, images: Sequence[Image]) -> Any:
    """A prompt whose images are OpenAI's parts of type `image_url`, with their bytes in them."""
    if not images:
        return prompt
    by_sha256 = {image.sha256: image for image in images}

    def part_of(part: Row) -> Row:
        if part["type"] != "image":
            return part
        image = by_sha256[part["image"]]
        data = base64.b64encode(image.read()).decode()
        url = f"data:{_MEDIA[image.format]};base64,{data}"
        return {"type": "image_url", "image_url": {"url": url}}

    return [
        turn | {"content": [part_of(part) for part in parts]}
        if isinstance(parts := turn.get("content"), list)
        else turn
        for turn in prompt
    ]


def _parts(prompt: list[Row]) -> Iterator[Row]:
    """The parts of all turns whose content is a list of them."""
    for turn in prompt:
        if isinstance(turn.get("content"), list):
            yield from turn["content"]


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

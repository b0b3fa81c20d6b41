"""The images of prompts that are read: from parts of messages, and from a column of the rows.

The images of a column stand where the messages have places for them: parts `{"type": "image"}`
without a value, or else `<image>` in the text. Without places they stand before the text of the
first turn of the user.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlvr_cli.config import ImageOptions
from rlvr_cli.errors import DataError
from rlvr_cli.interop import image_files, readers
from rlvr_cli.interop.data_sets import DataSet
from rlvr_cli.interop.image_files import Folder
from rlvr_cli.models import image_parts, messages
from rlvr_cli.models.messages import Message, Prompt
from rlvr_cli.protocols import Unusable
from rlvr_cli.runtime.several import Several
from rlvr_cli.storage.images import Image
from rlvr_cli.terminal import plural

NO_COLUMN = "none"  # the name of the column of images of prompts of which only the text is read
_COLUMNS = ("images", "image")  # as data sets and TRL call it
_PLACE = "<image>"  # as verl and many data sets have it in the text


class RowImages:
    """Reads the images of a data set's rows, as the options say."""

    def __init__(self, data: DataSet, source: str, options: ImageOptions) -> None:
        """An error if the column that is named is not there."""
        self.column = _column(data.rows, source, options.image_column)
        self._most = options.max_pixels
        if options.images is None:
            self._folder = Folder(data.folder, data.is_downloaded)
        else:
            self._folder = Folder(Path(options.images))
        self._images = self._prompts = 0

    def asked(self, given: Any, prompt_id: str, row: dict[str, Any]) -> dict[str, Any]:
        """The messages of a prompt as they are stored, the shape they were read from, its images.

        `Unusable` if it has other images than places for them, or one that cannot be read.
        """
        prompt, shape = messages.read(given, prompt_id)
        values = self.values(row)
        if self.column:
            prompt = _placed(prompt, values, self.column)
        prompt, images = stored(prompt, self._folder, self._most)
        self._images += len(images)
        self._prompts += bool(images)
        return {
            "messages": json.dumps(prompt if shape or images else given, default=str),
            "shape": shape,
            "images": images,
        }

    def without(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row without its images, which are no part of what else it says."""
        if self.column is None:
            return row
        return _without(row, self.column.split(".") if self.column not in row else [self.column])

    def remarks(self) -> Iterator[str]:
        """What was read, one line."""
        if self._images:
            column = f", of the column `{self.column}`" if self.column else ""
            prompts = plural.of(self._prompts, "prompt")
            yield f"{plural.of(self._images, 'image')} in {prompts}{column}"

    def values(self, row: dict[str, Any]) -> list[Any]:
        """What the column of images holds in a row."""
        value = readers.look_up(row, self.column) if self.column else None
        values = value if isinstance(value, list | tuple) else [value]
        return [one for one in values if not _is_nothing(one)]


def _is_nothing(value: Any) -> bool:
    """Whether a cell names no image: Arrow gives a struct whose fields are null for some."""
    if isinstance(value, dict):
        return all(item is None for item in value.values())
    return value is None or value == ""


def _column(rows: list[dict[str, Any]], source: str, given: str | None) -> str | None:
    """The column of images that is named, or that has a known name and holds images."""
    if given == NO_COLUMN:
        return None
    if given:
        return readers.column(rows, given, (), "--image-column", Path(source))
    return next((name for name in _COLUMNS if _holds_images(rows, name)), None)


def _holds_images(rows: list[dict[str, Any]], name: str) -> bool:
    value = next((row[name] for row in rows if not _is_nothing(row.get(name))
                  and row[name] != []), None)  # fmt: skip
    if isinstance(value, list | tuple):
        value = next((one for one in value if not _is_nothing(one)), None)
    return image_files.is_image(value)


def _without(row: dict[str, Any], path: list[str]) -> dict[str, Any]:
    name, *inner = path
    if not inner or not isinstance(row.get(name), dict):
        return {key: value for key, value in row.items() if key != name}
    return row | {name: _without(row[name], inner)}


def _placed(prompt: Prompt, values: list[Any], column: str) -> Prompt:
    """The prompt with these values in its places for images."""
    turns: list[Message] = (
        [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    )
    named = messages.images(turns)
    places = named.count(None)
    own = len(named) - places
    if not places and not own:
        split = [turn | {"content": _split(turn["content"])} for turn in turns]
        if places := len(messages.images(split)):
            turns = split
    if places != len(values):
        if places or (own and values):
            raise Unusable(_disagreement(places, own, len(values), column))
        turns = _in_front(turns, len(values)) if values else turns
    if not values:
        return prompt
    left = iter(values)
    return [turn | {"content": _filled(turn["content"], left)} for turn in turns]


def _disagreement(places: int, own: int, given: int, column: str) -> str:
    if not places:
        return f"it has {plural.of(own, 'image')} in its messages and {given} more in `{column}`"
    return f"it has {plural.of(places, 'place')} for images and {given} in `{column}`"


def _split(content: Any) -> Any:
    """A content with a place for an image wherever its text says `<image>`."""
    if not content or _PLACE not in messages.text(content):
        return content
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    split: list[dict[str, Any]] = []
    for part in parts:
        if part["type"] == "image":
            split.append(part)
            continue
        for piece in re.split(f"({_PLACE})", part["text"]):
            is_place = piece == _PLACE
            own = {"type": "image", "image": None} if is_place else {"type": "text", "text": piece}
            split.append(own)
    return messages.merged(split)


def _in_front(turns: list[Message], count: int) -> list[Message]:
    """The turns with so many places before the text of the first turn of the user."""
    first = next((i for i, turn in enumerate(turns) if turn["role"] == "user"), None)
    if first is None:
        raise Unusable("it has images and no turn of the user")
    content = turns[first]["content"] or ""
    parts = [{"type": "image", "image": None} for _ in range(count)]
    filled = messages.merged([*parts, {"type": "text", "text": content}])
    return [*turns[:first], turns[first] | {"content": filled}, *turns[first + 1 :]]


def _filled(content: Any, values: Iterator[Any]) -> Any:
    if not isinstance(content, list):
        return content
    return [
        part | {"image": next(values)}
        if part["type"] == "image" and part["image"] is None
        else part
        for part in content
    ]


def stored(
    prompt: Prompt, folder: Folder, max_pixels: int | None = None
) -> tuple[Prompt, list[Image]]:
    """A prompt as it is stored, each image by its sha256, and its images in their order."""
    found: list[Image] = []
    if isinstance(prompt, str) or not messages.images(prompt):
        return prompt, found

    def part_of(part: dict[str, Any]) -> dict[str, Any]:
        if part["type"] != "image":
            return part
        if part["image"] is None:
            raise Unusable("it has a place for an image, and no image")
        image = image_files.read(part["image"], folder, max_pixels)
        found.append(image)
        return {"type": "image", "image": image.sha256}

    turns = [
        turn | {"content": [part_of(part) for part in turn["content"]]}
        if isinstance(turn["content"], list)
        else turn
        for turn in prompt
    ]
    return turns, found


def of_task(spec: str, row: dict[str, Any]) -> tuple[Any, list[Image]]:
    """The prompt of a task's row as it is stored, and its images."""
    prompt = row["prompt"]
    if not _has_images(prompt):
        return prompt, []
    try:
        return stored(messages.read(prompt, row["prompt_id"])[0], Folder())
    except Unusable as error:
        raise DataError(
            f"`{spec}` gives prompt `{row['prompt_id']}`, which can be no prompt: {error}",
            "give the bytes of an image file, or an image of Pillow",
        ) from error


def of_completions(rows: list[dict[str, Any]], source: Path) -> RowImages:
    """Reads the images of prompts whose completions are imported; `rows` has one of each."""
    first = source.paths[0] if isinstance(source, Several) else source
    folder = first if first.is_dir() else first.parent
    return RowImages(DataSet("", rows, folder), str(source), ImageOptions())


def of_imported(
    images: RowImages, prompt: Any, prompt_id: str, source: Path, row: dict[str, Any]
) -> dict[str, Any]:
    """The messages of a prompt whose completions are imported, and its images.

    What has no images stays as it came.
    """
    if not _has_images(prompt) and not (prompt and images.values(row)):
        return {"messages": json.dumps(prompt, default=str), "images": []}
    try:
        asked = images.asked(prompt, prompt_id, row)
    except Unusable as error:
        raise DataError(
            f"`{source}`: prompt `{prompt_id}` cannot be read: {error}",
            "name prompts that are there with --prompts, or leave them out: --prompt-column none",
        ) from error
    return {"messages": asked["messages"], "images": asked["images"]}


def _has_images(prompt: Any) -> bool:
    turns = prompt if isinstance(prompt, list) else []
    contents = [turn.get("content") for turn in turns if isinstance(turn, dict)]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return any(isinstance(part, dict) and image_parts.is_one(part) for part in parts)

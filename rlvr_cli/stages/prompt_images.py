"""The images of prompts that are read: from parts of messages, and from columns of the rows."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlvr_cli.config import ImageOptions
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.interop import image_files, readers
from rlvr_cli.interop.data_sets import DataSet
from rlvr_cli.interop.image_files import Folder
from rlvr_cli.models import messages
from rlvr_cli.models.messages import Prompt
from rlvr_cli.protocols import Unusable
from rlvr_cli.runtime.several import Several
from rlvr_cli.runtime.spooled import Spooled
from rlvr_cli.stages import image_places
from rlvr_cli.storage.images import Image
from rlvr_cli.terminal import plural

NO_COLUMN = "none"  # the name of the column of images of prompts of which only the text is read
_COLUMNS = ("images", "image")  # as data sets and TRL call it
_FILE_NAME = "file_name"  # as folders of images for `datasets` have it, in metadata.jsonl
_OTHERS = {"video": "a video", "audio": "a sound"}  # by the column and the place in the text


class RowImages:
    """Reads the images of a data set's rows, as the options say."""

    def __init__(self, data: DataSet, source: str, options: ImageOptions) -> None:
        """An error if a column or a folder that is named is not there."""
        if options.images is not None and not Path(options.images).is_dir():
            raise UsageError(
                f"--images is `{options.images}`, which is not a folder", "check the path"
            )
        self.columns = _columns(data, source, options.image_column)
        self._is_text = options.image_column == NO_COLUMN
        self._others = [] if self._is_text else _others(data.rows, self.columns)
        self._most = options.max_pixels
        begins = data.folder if options.images is None else Path(options.images)
        self._folder = Folder(begins, data.is_downloaded)
        self._images = self._prompts = self._unfilled = 0
        self._has_missing = False

    def asked(self, given: Any, prompt_id: str, row: dict[str, Any]) -> dict[str, Any]:
        """The messages of a prompt as they are stored, the shape they were read from, its images.

        `Unusable` if it has other images than places for them, or one that cannot be read.
        """
        try:
            prompt, shape = messages.read(given, prompt_id)
        except DataError as error:
            raise Unusable(f"it {str(error).removeprefix(f'prompt `{prompt_id}` ')}") from error
        for kind, what in _OTHERS.items():
            if (row.get(kind) or row.get(f"{kind}s")) and image_places.says(prompt, kind):
                raise Unusable(f"it has {what}, and only images are read")
        if self.columns:
            prompt = image_places.filled(prompt, self.values(row), ",".join(self.columns))
        elif not self._is_text:
            self._unfilled += image_places.says_place(prompt)
        try:
            prompt, images = stored(prompt, self._folder, self._most)
        except image_files.Missing:
            self._has_missing = True
            raise
        self._images += len(images)
        self._prompts += bool(images)
        return {
            "messages": json.dumps(prompt if shape or images else given, default=str),
            "shape": shape,
            "images": images,
        }

    def without(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row without its images, and other files in it: JSON has no place for bytes."""
        for name in self.columns:
            row = _without(row, [name] if name in row else name.split("."))
        if self.columns or self._is_text:
            return {name: value for name, value in row.items() if not _has_bytes(value)}
        return {name: value for name, value in row.items() if name not in self._others}

    def remarks(self) -> Iterator[str]:
        """What was read, and what may have been meant."""
        if self._images:
            named = _listed(self.columns)
            column = f", of the column{'s' * (len(self.columns) > 1)} {named}" if named else ""
            prompts = plural.of(self._prompts, "prompt")
            yield f"{plural.of(self._images, 'image')} in {prompts}{column}"
        if self._others and not self.columns:
            yield (
                f"no prompt has the images of {_listed(self._others)}: take them with "
                f"--image-column {','.join(self._others)}, or say --image-column {NO_COLUMN}"
            )
        elif self._unfilled:
            yield (
                f"{plural.of(self._unfilled, 'prompt')} with `<image>` in the text and no column "
                "of images: name it with --image-column"
            )

    def hint(self) -> str:
        """What else helps if rows were unusable for their images; empty where nothing is known."""
        if not self._has_missing:
            return ""
        column = f"take --image-column {self._others[0]}, " if self._others else ""
        return f"{column}name the folder where its paths begin with --images"

    def values(self, row: dict[str, Any]) -> list[Any]:
        """What the columns of images hold in a row."""
        cells = [readers.look_up(row, name) for name in self.columns]
        values = [one for cell in cells for one in (cell if type(cell) is list else [cell])]
        return [one for one in values if not _is_nothing(one)]


def _listed(names: list[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def _is_nothing(value: Any) -> bool:
    """Whether a cell names no image: Arrow gives a struct whose fields are null for some."""
    if isinstance(value, dict):
        return all(item is None for item in value.values())
    return value is None or value == ""


def _has_bytes(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_bytes, value.values()))
    return isinstance(value, bytes | Spooled) or (
        isinstance(value, list) and any(map(_has_bytes, value))
    )


def _columns(data: DataSet, source: str, given: str | None) -> list[str]:
    """The columns of images that are named, or the one of a known name that holds images."""
    if given == NO_COLUMN:
        return []
    if given:
        names = [given] if given in data.rows[0] else given.split(",")
        for name in names:
            readers.column(data.rows, name, (), "--image-column", Path(source))
        return names
    known = [name for name in _COLUMNS if _holds_images(data.rows, name)]
    file = data.rows[0].get(_FILE_NAME) if data.rows else None
    if not known and image_files.is_image(file) and (data.folder / str(file)).is_file():
        return [_FILE_NAME]
    return known[:1]


def _others(rows: list[dict[str, Any]], taken: list[str]) -> list[str]:
    """The columns with the bytes of images, other than those that are taken."""
    firsts: dict[str, Any] = {}
    for name in [name for name in rows[0] if name not in taken] if rows else []:
        firsts[name] = next((r[name] for r in rows if not _is_nothing(r.get(name))), None)
    return [name for name, value in firsts.items() if image_files.has_bytes(value)]


def _holds_images(rows: list[dict[str, Any]], name: str) -> bool:
    """Whether a column holds images, or texts where a prompt has a place for one."""
    row = next((row for row in rows if row.get(name) and not _is_nothing(row[name])), {})
    value = row.get(name)
    if isinstance(value, list | tuple):
        value = next((one for one in value if not _is_nothing(one)), None)
    is_place = isinstance(value, str) and image_places.says_place(json.dumps(row, default=str))
    return is_place or image_files.is_image(value)


def _without(row: dict[str, Any], path: list[str]) -> dict[str, Any]:
    name, *inner = path
    if not inner or not isinstance(row.get(name), dict):
        return {key: value for key, value in row.items() if key != name}
    return row | {name: _without(row[name], inner)}


def stored(
    prompt: Prompt, folder: Folder, max_pixels: int | None = None
) -> tuple[Prompt, list[Image]]:
    """A prompt as it is stored, each image by its sha256, and its images in their order."""
    read: list[Image] = []
    if isinstance(prompt, str) or not messages.images(prompt):
        return prompt, read

    def part_of(part: dict[str, Any]) -> dict[str, Any]:
        if part["type"] != "image":
            return part
        if part["image"] is None:
            raise Unusable("it has a place for an image, and no image")
        image = image_files.read(part["image"], folder, max_pixels)
        read.append(image)
        return {"type": "image", "image": image.sha256}

    turns = [
        turn | {"content": [part_of(part) for part in turn["content"]]}
        if isinstance(turn["content"], list)
        else turn
        for turn in prompt
    ]
    return turns, read


def of_task(spec: str, row: dict[str, Any]) -> tuple[Any, list[Image]]:
    """The prompt of a task's row as it is stored, and its images."""
    prompt, values = row["prompt"], row.get("images") or ()
    if not values and not _has_images(prompt):
        return prompt, []
    try:
        read = messages.read(prompt, row["prompt_id"])[0]
        return stored(image_places.filled(read, values, "images"), Folder())
    except Unusable as error:
        raise DataError(
            f"`{spec}` gives prompt `{row['prompt_id']}`, which cannot be a prompt: {error}",
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
    return any(isinstance(part, dict) and messages.is_image(part) for part in parts)

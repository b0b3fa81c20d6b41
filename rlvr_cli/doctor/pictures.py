"""What is wrong with the images of prompts: their bytes, sizes and places."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rlvr_cli.doctor.finding import MOST, Finding, some
from rlvr_cli.errors import UserError
from rlvr_cli.models import messages
from rlvr_cli.storage.images import Image
from rlvr_cli.terminal import plural

_WRITTEN = re.compile(r"<image>|<\|image_pad\|>|<\|image\|>|<start_of_image>|<image_soft_token>")


@dataclass
class PromptImages:
    """The images of all prompts, counted; their bytes are read once, and checked."""

    prompts: int = 0
    with_images: int = 0
    count: int = 0
    size: int = 0  # bytes of the different images
    seen: set[bytes] = field(default_factory=set)
    formats: Counter[str] = field(default_factory=Counter)
    smallest: tuple[int, ...] = ()  # width and height in pixels
    largest: tuple[int, ...] = ()
    written: Counter[str] = field(default_factory=Counter)  # placeholders in texts
    names: list[str] = field(default_factory=list)
    damaged: dict[str, UserError] = field(default_factory=dict)

    def add(self, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            images = row.get("images") or ()
            self.prompts += 1
            self.with_images += bool(images)
            self.count += len(images)
            for image in images:
                self._add_image(image, row["prompt_id"])
            if match := _WRITTEN.search(_text(row)):
                self.written[match[0]] += 1
                self.names += [row["prompt_id"]] * (self.written.total() <= MOST)

    def _add_image(self, image: Image, prompt_id: str) -> None:
        key = bytes.fromhex(image.sha256)
        if key in self.seen:
            return
        self.seen.add(key)
        self.formats[image.format] += 1
        self.size += image.size
        sides = (image.width, image.height)
        self.smallest = min(self.smallest or sides, sides, key=math.prod)
        self.largest = max(self.largest or sides, sides, key=math.prod)
        try:
            image.read()
        except UserError as error:
            self.damaged.setdefault(prompt_id, error)

    def findings(self) -> Iterator[Finding]:
        if self.written.total() and self.with_images:
            (name, _), *_ = self.written.most_common(1)
            yield Finding(
                "problem",
                "placeholders",
                f"{plural.of(self.written.total(), 'prompt')} with `{name}` in the text, but no "
                f"image for it: {some(self.names)}",
                "a column of images fills them as `rlvr prompts` reads: --image-column names it",
            )
        for prompt_id, error in self.damaged.items():
            yield Finding("problem", "images", f"prompt `{prompt_id}`: {error}", error.hint)
            return
        if self.with_images:
            yield Finding("ok", "images", self._counted())

    def _counted(self) -> str:
        different = len(self.seen)
        text = f"{plural.of(self.count, 'image')} of {self.with_images} prompts"
        if different < self.count:
            text += f", {different} different"
        if self.with_images < self.prompts:
            text += f"; {self.prompts - self.with_images} without"
        formats = ", ".join(f"{count} {name}" for name, count in self.formats.most_common())
        ends = (self.smallest, self.largest)
        sizes = " to ".join(" × ".join(map(str, s)) for s in dict.fromkeys(ends))
        return f"{text}; {plural.size(self.size)}, {sizes} pixels, {formats}"


def _text(row: dict[str, Any]) -> str:
    """All text of a prompt's turns."""
    if not _WRITTEN.search(row["messages"]):
        return ""
    prompt = messages.stored(row["messages"], row["prompt_id"])
    if isinstance(prompt, str):
        return prompt
    return "\n".join(messages.text(turn["content"]) for turn in prompt)

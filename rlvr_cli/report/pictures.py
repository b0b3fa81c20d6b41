"""The images of prompts on a page: each is embedded once, however many texts show it.

A style sheet holds them as backgrounds, by digest; the HTML of a text has an element for each.
"""

import dataclasses
import functools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rlvr_cli.errors import UserError
from rlvr_cli.interop import turns
from rlvr_cli.report import thumbnails
from rlvr_cli.report.code import escaped
from rlvr_cli.report.texts import Text
from rlvr_cli.storage.images import Image, Images
from rlvr_cli.storage.shards import Shards
from rlvr_cli.terminal import plural

_SAMPLED = 16  # images from which the size of all is taken
_LEAST, _MOST = 128, 192  # CSS pixels of the longer side, to which smaller ones are enlarged
_BREAK = r"(?:<br />)?\n?"


@dataclass(frozen=True)
class Picture:
    """An image as the page shows it, `width` and `height` in CSS pixels; without a URL in words."""

    digest: str  # the first digits of the sha256
    alt: str
    width: int
    height: int
    url: str = ""
    enlarged: bool = False

    @property
    def html(self) -> str:
        """An element that shows the image."""
        if not self.url:
            return f'<span class="no-image">[{escaped(self.alt)}]</span>'
        size = f"width:{self.width}px;aspect-ratio:{self.width}/{self.height}"
        kinds = f"image{' enlarged' if self.enlarged else ''} i-{self.digest}"
        alt = escaped(self.alt)
        return (
            f'<span class="{kinds}" role="img" aria-label="{alt}" title="{alt}" style="{size}">'
            "</span>"
        )


class Album:
    """The pictures of a page by the sha256 of their images, and why some are not shown."""

    def __init__(self, pictures: dict[str, Picture] | None = None, note: str = "") -> None:
        self._pictures, self.note = pictures or {}, note

    @functools.cached_property
    def css(self) -> str:
        """A rule for each picture: its image, embedded."""
        shown = (p for p in self._pictures.values() if p.url)
        return "".join(f".i-{p.digest}{{background-image:url({p.url})}}\n" for p in shown)

    def text(self, text: Text, images: Sequence[str]) -> Text:
        """A prompt's text with its pictures at their places; those that were cut come after it."""
        if not images:
            return text
        head = _html(text.head, text.head_html)
        tail = _html(text.tail, text.tail_html) if text.tail else ""
        for sha256 in dict.fromkeys(images):
            picture = self._pictures[sha256].html
            # A picture is a block: the breaks of lines around it would be empty lines.
            place = _BREAK + re.escape(turns.placeholder(sha256)) + _BREAK
            if re.search(place, head + tail):
                head, tail = (picture.join(re.split(place, part)) for part in (head, tail))
            elif tail:
                tail += picture
            else:
                head += picture
        return dataclasses.replace(text, head_html=head, tail_html=tail)


def album(prompts: Iterable[Shards | None], asked: Iterable[str], most_bytes: int) -> Album:
    """The pictures of all images in these messages, in their order, in about `most_bytes`.

    They are as large as the room allows for all of them, 64 to 256 pixels; those for which it is
    too small even so are in words.
    """
    different = {one.digest: one for one in prompts if one}
    sources, missing = _sources(different.values())
    if not sources and not missing:
        return Album()
    shown = (sha256 for text in asked for of_turn in of_messages(text) for sha256 in of_turn)
    names = list(dict.fromkeys(shown))
    images = [own.image(name) for name in names if (own := _source(name, sources))]
    urls, side = _embedded(images, most_bytes)
    pictures = {name: Picture(name[:12], f"image {name[:12]}", 0, 0) for name in names}
    pictures |= {one.sha256: _picture(one, urls.get(one.sha256, ""), side) for one in images}
    return Album(pictures, " ".join([*missing, *_notes(images, urls)]))


def _sources(prompts: Iterable[Shards]) -> tuple[list[Images], list[str]]:
    """The images of each directory that has some, and why those of others cannot be read."""
    sources, missing = [], []
    for one in prompts:
        try:
            if own := Images.of(one):
                sources.append(own)
        except UserError as error:
            missing.append(f"Images are named and not shown: {error}.")
    return sources, missing


def _source(sha256: str, sources: Sequence[Images]) -> Images | None:
    return next((one for one in sources if sha256 in one), None)


def of_messages(messages: str) -> list[list[str]]:
    """The sha256 of the images in each turn of a stored prompt."""
    return turns.images(json.loads(messages))


def _html(text: str, html: str | None) -> str:
    return html or f'<div class="as-is">{escaped(text)}</div>'


def _embedded(images: list[Image], most_bytes: int) -> tuple[dict[str, str], int]:
    """Data URLs by sha256, as many as there is room for, and their pixels a side."""
    able = [one for one in images if _can_embed(one)]
    urls: dict[str, str] = {}
    side, room = _side(able, most_bytes), most_bytes
    for one in able:
        url = _url(one, side)
        if len(url) <= room:
            room -= len(url)
            urls[one.sha256] = url
    return urls, side


def _can_embed(image: Image) -> bool:
    return thumbnails.available() or thumbnails.is_small(image, thumbnails.SIDES[0])


def _side(images: list[Image], most_bytes: int) -> int:
    """The largest side of thumbnails with which all of them fit, by a sample; else the smallest."""
    sample = images[:: -(-len(images) // _SAMPLED) or 1]
    for side in thumbnails.SIDES[:-1]:
        size = sum(len(_url(one, side)) for one in sample)
        if size * len(images) <= most_bytes * len(sample):
            return side
    return thumbnails.SIDES[-1]


def _url(image: Image, side: int) -> str:
    if thumbnails.is_small(image, side) or not thumbnails.available():
        return thumbnails.as_stored(image)
    return thumbnails.thumbnail(image, side)


def _picture(image: Image, url: str, side: int) -> Picture:
    width, height = thumbnails.size_in(image, side)
    longer = max(width, height)
    times = max(1, _LEAST // longer)
    shown = min(1.0, _MOST / longer) * times
    name = image.sha256[:12]
    alt = f"image {name}, {image.format}, {image.width} × {image.height} pixels"
    return Picture(
        name, alt, max(1, round(shown * width)), max(1, round(shown * height)), url, times > 1
    )


def _notes(images: list[Image], urls: dict[str, str]) -> Iterator[str]:
    """How many images are not shown, and why."""
    count = len(images)
    without_pillow = sum(not _can_embed(one) for one in images)
    if without_pillow:
        yield (
            f"{plural.of(without_pillow, 'image')} of {count:,} are named and not shown, because "
            "Pillow is not installed: pip install 'rlvr[images]'."
        )
    if left := count - len(urls) - without_pillow:
        yield (
            f"{plural.of(left, 'image')} of {count:,} are named and not shown; --max-mb sets how "
            "much the page may hold."
        )

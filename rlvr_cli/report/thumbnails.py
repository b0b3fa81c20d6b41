"""Small copies of stored images, as data URLs. Pillow makes them; small images need none."""

import base64
import importlib.util
import io

from rlvr_cli.errors import DataError, first_line
from rlvr_cli.storage.images import Image

SIDES = (256, 192, 128, 96, 64)  # pixels of the longer side, from which a page takes one
_MOST_KEPT = 12_000  # bytes of an image that is embedded as it is stored
_MEDIA = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}


def available() -> bool:
    """Whether large images can be scaled down."""
    return importlib.util.find_spec("PIL") is not None


def is_small(image: Image, side: int) -> bool:
    """Whether a stored image is its own thumbnail."""
    return max(image.width, image.height) <= side and image.size <= _MOST_KEPT


def size_in(image: Image, side: int) -> tuple[int, int]:
    """Width and height of the image with at most `side` pixels a side."""
    share = min(1.0, side / max(image.width, image.height))
    return max(1, round(image.width * share)), max(1, round(image.height * share))


def as_stored(image: Image) -> str:
    """The image itself as a data URL."""
    return _url(image.read(), image.format)


def thumbnail(image: Image, side: int) -> str:
    """The data URL of the image with at most `side` pixels a side: the smaller of PNG and JPEG."""
    import PIL.Image

    try:
        with PIL.Image.open(io.BytesIO(image.read())) as opened:
            opened.draft("RGB", (2 * side, 2 * side))
            small = opened.convert("L" if opened.mode == "L" else "RGB")
    except (OSError, ValueError, PIL.Image.DecompressionBombError) as error:
        raise DataError(
            f"Pillow cannot read image {image.sha256[:12]}: {first_line(error)}",
            "make its prompts again with `rlvr prompts`",
        ) from error
    small.thumbnail((side, side), PIL.Image.Resampling.LANCZOS)
    urls = []
    for format, options in (("PNG", {"optimize": True}), ("JPEG", {"quality": 80})):
        sink = io.BytesIO()
        small.save(sink, format, **options)
        urls.append(_url(sink.getvalue(), format))
    return min(urls, key=len)


def _url(data: bytes, format: str) -> str:
    return f"data:{_MEDIA.get(format, 'image/*')};base64,{base64.b64encode(data).decode()}"

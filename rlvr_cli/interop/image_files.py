"""Images of data sets: the bytes that a value names, and how they are stored.

A value is bytes, a `data:` URL, the path or `file:` URL of a file, base64, a struct of bytes and
path as `datasets` has it, or an image of Pillow. Nothing is downloaded.
"""

import base64
import binascii
import functools
import io
import os
import re
import struct
import urllib.parse
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlvr_cli.errors import UsageError, first_line
from rlvr_cli.protocols import Unusable
from rlvr_cli.runtime import spooled
from rlvr_cli.runtime.spooled import Spooled
from rlvr_cli.storage import images
from rlvr_cli.storage.images import Image

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

FORMATS = ("PNG", "JPEG", "WEBP")  # that are stored as they are
_READ = (*FORMATS, "GIF", "BMP", "TIFF", "PPM")  # and none that starts a program, as EPS
_BASE64 = ("iVBOR", "/9j/", "UklGR", "R0lGOD", "Qk")  # begins of PNG, JPEG, WebP, GIF and BMP
_MAGIC = (b"\x89PNG", b"\xff\xd8\xff", b"RIFF", b"GIF8", b"BM", b"II*\0", b"MM\0*")
_SUFFIXES = (*(".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff"),)
_LEAST_BASE64 = 64  # characters; a shorter text is a path
_LONG_BASE64 = 1024  # characters of what waits on disk
_TEXTS = ("text", "content")  # of messages, which are no images whatever they say
_DAMAGED = (  # what Pillow raises of files that are
    *(OSError, ValueError, SyntaxError, EOFError, IndexError, TypeError, OverflowError),
    *(KeyError, AttributeError, struct.error, zlib.error, ZeroDivisionError),
)
_NAMES = ("bytes", "path", "url", "image")  # of what names an image in a struct
_ORIENTATION = 0x0112  # the EXIF tag


class Missing(Unusable):
    """Why a row is unusable whose image is a file that is not there."""


@dataclass(frozen=True)
class Folder:
    """Where relative paths start; for downloaded data, no path outside is read."""

    path: Path = Path()
    is_confined: bool = False


def read(value: Any, folder: Folder, max_pixels: int | None = None) -> Image:
    """The image that a value names, as it is stored; `Unusable` with the reason if there is none.

    Stored as given is one frame of PNG, JPEG or WebP in RGB or grey, without a rotation in EXIF.
    Any other is written as PNG in RGB: rotated, palettes expanded, alpha laid on white, 16 bits
    scaled to 8. One of more than `max_pixels` is scaled down, with the same aspect ratio. Its bytes
    wait on disk until they are written.
    """
    pillow()
    if _is_of_pillow(value):
        with _reporting(b""):
            image = _written(value, max_pixels)
    else:
        data = data_of(value, folder)
        image = normalised(data, max_pixels)
        if image.read() is data and isinstance(named := _named(value), Spooled):
            return replace(image, read=named.read)
    return replace(image, read=spooled.keep(image.read()).read)


def is_image(value: Any) -> bool:
    """Whether a value looks like an image: bytes, a struct of them or a path, a file's name."""
    if isinstance(value, dict):
        return not value.keys().isdisjoint(_NAMES)
    if isinstance(value, str):
        return value.lower().startswith(("data:image/", "http:", "https:", "file:")) or (
            value.lower().endswith(_SUFFIXES)
            or (value.startswith(_BASE64) and len(value) > _LEAST_BASE64)
        )
    return isinstance(value, bytes | Spooled) or _is_of_pillow(value)


def with_spooled(value: Any) -> Any:
    """A value of JSON or CSV whose images in base64 wait on disk, as bytes of Parquet do."""
    if isinstance(value, dict):
        return {
            name: item if name in _TEXTS and isinstance(item, str) else with_spooled(item)
            for name, item in value.items()
        }
    if isinstance(value, list):
        are_numbers = value and isinstance(value[0], int | float)  # as of thousands of tokens
        return value if are_numbers else [with_spooled(item) for item in value]
    if not isinstance(value, str) or len(value) < _LONG_BASE64:
        return value
    if value.startswith(_BASE64):
        return spooled.keep_base64("", value) or value
    head = value[:_LEAST_BASE64].partition(",")[0]
    if head.startswith("data:image/") and head.endswith(";base64"):
        return spooled.keep_base64(f"{head},", value[len(head) + 1 :]) or value
    return value


def has_bytes(value: Any) -> bool:
    """Whether a value, or the first of a list of them, has the bytes of an image in it."""
    value = next(iter(value), None) if isinstance(value, list) else value
    value = _named(value)
    data = value.read() if isinstance(value, Spooled) else value
    return isinstance(data, bytes) and data.startswith(_MAGIC)


def _is_of_pillow(value: Any) -> bool:
    return hasattr(value, "getexif") and hasattr(value, "convert")


def pillow() -> Any:
    """The package Pillow; an error with a hint where it is not installed."""
    try:
        import PIL.Image
    except ModuleNotFoundError as error:
        raise UsageError(
            "prompts with images need Pillow, which is not installed", "pip install 'rlvr[images]'"
        ) from error
    return PIL


def data_of(value: Any, folder: Folder) -> bytes:
    """The bytes that a value names."""
    value = _named(value)
    if isinstance(value, Spooled):
        return value.read()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str) or not value:
        raise Unusable(f"its image is {type(value).__name__}, no bytes and no path")
    scheme = value.partition(":")[0].lower() if ":" in value[:12] else ""
    if scheme == "data":
        return _of_data_url(value)
    if scheme in ("http", "https"):
        raise Unusable(f"its image is `{value[:60]}`, and nothing is downloaded: name a file")
    if scheme == "file":
        value = urllib.parse.unquote(value[len("file:") :].removeprefix("//localhost"))
        value = value.removeprefix("//")
    elif value.startswith(_BASE64) and len(value) > _LEAST_BASE64:
        return _of_base64(value)
    return _of_file(value, folder)


def _named(value: Any) -> Any:
    """What names an image, without the structs around it."""
    while isinstance(value, dict):
        value = next((value[name] for name in _NAMES if value.get(name) is not None), None)
    return value


def _of_data_url(url: str) -> bytes:
    head, comma, data = url.partition(",")
    if not comma:
        raise Unusable("its image is a `data:` URL without data")
    if head.endswith(";base64"):
        return _of_base64(urllib.parse.unquote(data))
    return urllib.parse.unquote_to_bytes(data)


def _of_base64(text: str) -> bytes:
    try:
        plain = re.sub(r"\s+", "", text).translate(str.maketrans("-_", "+/"))
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Unusable(f"its image is not base64: {first_line(error)}") from error


def _of_file(name: str, folder: Folder) -> bytes:
    inner = os.path.normpath(name)
    if folder.is_confined and (os.path.isabs(inner) or inner.split(os.sep)[0] == os.pardir):
        raise Unusable(f"its image is `{name}`, which leaves the folder of a downloaded data set")
    path = folder.path / inner
    try:
        if not path.exists():
            raise Missing(f"its image `{path}` is not there")
        if not path.is_file():
            raise Unusable(f"its image `{path}` is no file")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise Unusable(f"its image `{name[:60]}` cannot be read: {first_line(error)}") from error


def normalised(data: bytes, max_pixels: int | None = None) -> Image:
    """The image of a file's bytes as it is stored, see `read`."""
    from PIL import Image as pictures

    with _reporting(data):
        opened = functools.partial(pictures.open, formats=_READ)
        opened(io.BytesIO(data)).verify()  # the checksums of a PNG, which loading skips
        picture = opened(io.BytesIO(data))
        frames = getattr(picture, "n_frames", 1)
        if frames > 1 and picture.format != "MPO":  # of which the others are previews
            raise Unusable(f"its image has {frames} frames, as animations have")
        picture.load()
        width, height = picture.size
        is_plain = picture.format in FORMATS and picture.mode in ("RGB", "L")
        is_plain = is_plain and "transparency" not in picture.info and not _is_deep_png(data)
        is_plain = is_plain and picture.getexif().get(_ORIENTATION, 1) == 1
        if is_plain and not (max_pixels and width * height > max_pixels):
            return images.image(data, str(picture.format), width, height)
        return _written(picture, max_pixels)


def _is_deep_png(data: bytes) -> bool:
    """Whether a file is a PNG of 16 bits a channel, which its header says."""
    return data[:4] == b"\x89PNG" and data[24:25] == b"\x10"


def _written(picture: "Picture", max_pixels: int | None) -> Image:
    """An image of Pillow as PNG in RGB."""
    from PIL import ImageOps

    picture = _rgb(ImageOps.exif_transpose(picture))
    width, height = picture.size
    if max_pixels and width * height > max_pixels:
        picture = picture.resize(_smaller(width, height, max_pixels), _lanczos())
    file = io.BytesIO()
    picture.save(file, "PNG")
    return images.image(file.getvalue(), "PNG", *picture.size)


def _lanczos() -> Any:
    from PIL import Image as pictures

    return pictures.Resampling.LANCZOS


def _smaller(width: int, height: int, most: int) -> tuple[int, int]:
    """The largest size of the same aspect with so many pixels at most, of 1 at least each way."""
    factor = (most / (width * height)) ** 0.5
    wide, high = max(1, int(width * factor)), max(1, int(height * factor))
    return (min(wide, most // high), high) if wide > high else (wide, min(high, most // wide))


def _rgb(picture: "Picture") -> "Picture":
    from PIL import Image as pictures

    if picture.mode.startswith("I;16") or picture.mode in ("I", "F"):
        return _scaled(picture)
    if picture.mode == "P" or "transparency" in picture.info:
        picture = picture.convert("RGBA")
    if "A" in picture.mode or "a" in picture.mode:
        picture = picture.convert("RGBA")
        ground = pictures.new("RGBA", picture.size, "white")
        return pictures.alpha_composite(ground, picture).convert("RGB")
    plain: Picture = picture.convert("RGB")
    return plain


def _scaled(picture: "Picture") -> "Picture":
    """An image of 16 bits, or of floats from 0 to 1, in RGB of 8."""
    import numpy as np
    from PIL import Image as pictures

    values = np.asarray(picture, dtype=np.float64)
    if not np.isfinite(values).all():
        raise Unusable("its image has pixels that are not numbers")
    most = 65535.0 if picture.mode != "F" or values.max(initial=0.0) > 1 else 1.0
    grey = np.clip(np.rint(values / most * 255), 0, 255).astype(np.uint8)
    return pictures.fromarray(grey, "L").convert("RGB")


@contextmanager
def _reporting(data: bytes) -> Iterator[None]:
    """What Pillow makes of a file that it cannot read, as the reason why a row is unusable."""
    pictures = pillow().Image
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what is read all the same, as cut EXIF
            warnings.simplefilter("error", pictures.DecompressionBombWarning)
            yield
    except Unusable:
        raise
    except (pictures.DecompressionBombError, pictures.DecompressionBombWarning) as error:
        raise Unusable(
            f"its image is larger than Pillow's limit of {pictures.MAX_IMAGE_PIXELS:,} pixels"
        ) from error
    except pictures.UnidentifiedImageError as error:
        raise Unusable(f"its image of {len(data):,} bytes is of no format that is known") from error
    except _DAMAGED as error:
        raise Unusable(f"its image is damaged: {first_line(error)}") from error

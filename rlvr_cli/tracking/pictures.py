"""Stored images as trackers take them."""

import io
from typing import Any

from rlvr_cli.errors import UsageError


def opened(image: Any) -> Any:
    """The Pillow image of a stored one, in RGB; an error where Pillow is not installed."""
    try:
        import PIL.Image
    except ImportError as error:
        raise UsageError(
            "the prompts have images, and Pillow is not installed",
            "pip install 'rlvr[images]', or leave them out with --samples 0",
        ) from error
    return PIL.Image.open(io.BytesIO(image.read())).convert("RGB")

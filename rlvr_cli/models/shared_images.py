"""Passes in which a vision tower sees each image once, however many rows show it.

The rows of a group have the same images: without this the tower computes the same for each of them.
"""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor


@contextlib.contextmanager
def once(model: Any, images: Sequence[tuple[bytes, ...]]) -> Iterator[None]:
    """Within the context the model computes the features of each different image of rows once.

    It is for models whose tower takes patches with the sizes of images (Qwen-VL), or one tensor an
    image (Gemma 3); any other computes as ever.
    """
    shown = [data for own in images for data in own]
    number: dict[bytes, int] = {}
    places = [number.setdefault(data, len(number)) for data in shown]
    if len(number) == len(shown):
        yield
        return
    first = [places.index(i) for i in range(len(number))]
    base = model.base_model
    compute = base.get_image_features

    @functools.wraps(compute)  # transformers reads which arguments it takes
    def features(pixel_values: "Tensor", *args: Any, **kwargs: Any) -> Any:
        grid = kwargs.pop("image_grid_thw", args[0] if args else None)
        if grid is not None and len(grid) == len(shown):
            parts = torch.split(pixel_values, grid.prod(-1).tolist())
            pixels = torch.cat([parts[i] for i in first])
            result = compute(pixels, grid[first], *args[1:], **kwargs)
        elif grid is None and pixel_values.ndim == 4 and len(pixel_values) == len(shown):
            result = compute(pixel_values[first], **kwargs)
        else:
            named = {} if grid is None or args else {"image_grid_thw": grid}
            return compute(pixel_values, *args, **named, **kwargs)
        result.pooler_output = _each(result.pooler_output, places)
        if levels := getattr(result, "deepstack_features", None):
            result.deepstack_features = [_each(level, places) for level in levels]
        return result

    base.get_image_features = features
    try:
        yield
    finally:
        del base.get_image_features  # uncovers the method of its class


def _each(values: Any, places: list[int]) -> Any:
    """The features of every image, from those of the different ones."""
    if isinstance(values, tuple | list):
        return tuple(values[i] for i in places)
    return values[places]

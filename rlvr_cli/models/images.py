"""Images as a policy sees them: prompts with their image tokens, and the pixels of rows.

Each row's images are processed by themselves, so that pixels do not depend on what else is in a
batch; what a model takes is then joined, and padded with zeros as transformers' processors do. The
rows of a group have the same images: `seen_once` has the vision tower compute each only once.

Shapes: B rows, S prompt and completion tokens.
"""

import contextlib
import functools
import inspect
import io
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rlvr_cli.errors import DataError, first_line
from rlvr_cli.models import processors
from rlvr_cli.runtime.later import torch

if TYPE_CHECKING:
    from torch import Tensor

_RECENT_BYTES = 1 << 29  # of pixels to keep, as the rows of a group have the same images
_TEXT = ("input_ids", "attention_mask")
_GRID = "image_grid_thw"  # of Qwen-VL: times, rows and columns of each image
_TYPES = ("mm_token_type_ids", "token_type_ids")


def decoded(data: bytes) -> Any:
    """The Pillow image of stored bytes, in RGB."""
    processors.require_pillow()
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as image:
            return image.convert("RGB")
    except (OSError, ValueError, SyntaxError) as error:
        raise DataError(
            f"an image of {len(data)} bytes cannot be decoded: {first_line(error)}",
            "make the prompts again with `rlvr prompts`",
        ) from error


def expanded(processor: Any, text: str, images: Sequence[bytes]) -> list[int]:
    """The token ids of a rendered chat, each place of an image as so many as the model has for it.

    ValueError where the text has not as many places as there are images.
    """
    places = text.count(processor.image_token)
    if places != len(images):
        raise ValueError(f"it has {places} places for images, and there are {len(images)}")
    features = _processed(processor, text, images)
    token_ids: list[int] = features["input_ids"][0].tolist()
    return token_ids


def placeholder_ids(processor: Any) -> frozenset[int]:
    """The token ids that are placeholders for images and the like: none may be sampled."""
    ids: set[int | None] = set()
    for kind in ("image", "video", "audio"):
        ids |= set(getattr(processor, f"{kind}_token_ids", ()))
        ids.add(getattr(processor, f"{kind}_token_id", None))
    unknown = processor.tokenizer.unk_token_id
    return frozenset(int(i) for i in ids if i is not None and i != unknown)


def inputs(model: Any, token_BS: "Tensor", images: Sequence[tuple[bytes, ...]]) -> dict[str, Any]:
    """What the model takes besides token ids for rows with these images; nothing without any.

    Its pixels on its device, in its precision. An error where a row has not as many image tokens
    as its images make.
    """
    if not any(images):
        return {}
    processor = model.processor
    ids = sorted(placeholder_ids(processor))
    rows = [_pixels(processor, own) for own in images if own]
    count_B = torch.isin(token_BS, torch.tensor(ids, device=token_BS.device)).sum(1).tolist()
    remaining = iter(rows)
    for count, own in zip(count_B, images, strict=True):
        wanted = next(remaining).tokens if own else 0
        if count != wanted:
            raise DataError(
                f"a row has {count} image tokens, its {len(own)} images make {wanted}",
                "the policy's image processor is another one than sampled: sample again",
            )
    device, dtype = token_BS.device, next(model.parameters()).dtype
    joined = {
        name: value.to(device, dtype if value.is_floating_point() else None)
        for name, value in _joined([row.tensors for row in rows]).items()
    }
    if name := rows[0].types:
        types = processor.create_mm_token_type_ids(token_BS.tolist())
        joined[name] = torch.tensor(types, device=device)
    accepted = _accepted(type(model.base_model).forward)
    return {name: value for name, value in joined.items() if name in accepted}


class _Row:
    """The pixels of a row's images, and how many image tokens they are.

    It keeps a reference to the processor, whose id is its key: so no other object gets that id.
    """

    def __init__(
        self, tensors: dict[str, "Tensor"], tokens: int, types: str, processor: Any
    ) -> None:
        self.tensors, self.tokens, self.types = tensors, tokens, types
        self.processor = processor

    @property
    def size(self) -> int:
        return sum(value.nbytes for value in self.tensors.values())


class _Recent:
    """The latest processed rows, up to a number of bytes."""

    def __init__(self) -> None:
        self._rows: OrderedDict[tuple[int, tuple[bytes, ...]], _Row] = OrderedDict()
        self._bytes = 0

    def get(self, key: tuple[int, tuple[bytes, ...]]) -> _Row | None:
        if key in self._rows:
            self._rows.move_to_end(key)
        return self._rows.get(key)

    def put(self, key: tuple[int, tuple[bytes, ...]], row: _Row) -> None:
        self._rows[key] = row
        self._bytes += row.size
        while self._bytes > _RECENT_BYTES and len(self._rows) > 1:
            self._bytes -= self._rows.popitem(last=False)[1].size


_recent = _Recent()


def _pixels(processor: Any, images: tuple[bytes, ...]) -> _Row:
    key = (id(processor), images)
    if row := _recent.get(key):
        return row
    features = _processed(processor, processor.image_token * len(images), images)
    ids = placeholder_ids(processor)
    tokens = sum(token in ids for token in features["input_ids"][0].tolist())
    types = next((name for name in _TYPES if name in features), "")
    tensors = {
        name: value
        for name, value in features.items()
        if name not in (*_TEXT, *_TYPES) and torch.is_tensor(value)
    }
    row = _Row(tensors, tokens, types, processor)
    _recent.put(key, row)
    return row


def _processed(processor: Any, text: str, images: Sequence[bytes]) -> Any:
    return processor(
        text=[text],
        images=[[decoded(data) for data in images]],
        return_tensors="pt",
        add_special_tokens=False,
    )


def _joined(rows: Sequence[dict[str, "Tensor"]]) -> dict[str, "Tensor"]:
    """The tensors of all rows concatenated, those of smaller images padded with zeros."""
    return {name: _stacked([row[name] for row in rows]) for name in rows[0]}


def _stacked(values: Iterable["Tensor"]) -> "Tensor":
    values = list(values)
    shape = [max(sizes) for sizes in zip(*(value.shape[1:] for value in values), strict=True)]
    stacked = values[0].new_zeros(sum(len(value) for value in values), *shape)
    start = 0
    for value in values:
        place = (slice(start, start + len(value)), *(slice(0, size) for size in value.shape[1:]))
        stacked[place] = value
        start += len(value)
    return stacked


@functools.cache
def _accepted(forward: Callable[..., Any]) -> frozenset[str]:
    """The names of what a forward pass takes."""
    return frozenset(inspect.signature(forward).parameters)


@contextlib.contextmanager
def seen_once(model: Any, images: Sequence[tuple[bytes, ...]]) -> Iterator[None]:
    """Within the context the model computes the features of each different image of rows once.

    It is for models whose tower takes patches with the sizes of images (Qwen-VL), or one tensor an
    image and nothing else of it (Gemma 3); any other computes as ever.
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
        grid = kwargs.get(_GRID, args[0] if args else None)
        is_alone = not any(map(torch.is_tensor, (*args, *kwargs.values())))
        if torch.is_tensor(grid) and grid.shape == (len(shown), 3):
            kwargs.pop(_GRID, None)
            parts = torch.split(pixel_values, grid.prod(-1).tolist())
            pixels = torch.cat([parts[i] for i in first])
            result = compute(pixels, grid[first], *args[1:], **kwargs)
        elif is_alone and pixel_values.ndim == 4 and len(pixel_values) == len(shown):
            result = compute(pixel_values[first], **kwargs)
        else:
            return compute(pixel_values, *args, **kwargs)
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

"""The memory that the images of prompts take in a vision tower, in bytes.

Every token of a prompt counts as one of an image, which is an upper bound.
"""

import functools
from dataclasses import dataclass
from typing import Any

from rlvr_cli.config import UpdateOptions
from rlvr_cli.models import pretrained
from rlvr_cli.models.policy import Policy

_PIXEL_BYTES = 4 + 4  # of each number of a patch: as it is processed, and on the device


@dataclass(frozen=True)
class Tower:
    """The numbers of a vision tower that decide its memory."""

    layers: int
    hidden: int
    intermediate: int
    patches: int  # that one token of an image covers
    numbers: int  # of the pixels of a patch
    trained: bool = False

    def pixels(self, tokens: int) -> int:
        """What the pixels of so many tokens take."""
        return tokens * self.patches * _PIXEL_BYTES * self.numbers

    def computing(self, tokens: int, size: int, *, recompute: bool = False) -> int:
        """What the tower takes for images of so many tokens at `size` bytes a number.

        That is its widest layer; where it is trained, also what its layers keep for the backward
        pass: their inputs, or, without `recompute`, all that they compute.
        """
        widest = size * max(3 * self.intermediate, 5 * self.hidden) + 8 * self.hidden
        kept = 0
        if self.trained:
            layer = size * self.hidden
            full = 2 * (4 + size) * self.hidden + size * (6 * self.hidden + 4 * self.intermediate)
            kept = self.layers * (layer if recompute else full) + (full if recompute else 0)
        return tokens * self.patches * (widest + kept)


@functools.lru_cache(maxsize=8)
def tower_of(policy: Policy, options: UpdateOptions = UpdateOptions()) -> Tower:
    """The vision tower of a policy that reads images, by its configuration."""
    config = pretrained.config((policy.base or policy).path)
    vision: dict[str, Any] = config.vision_config.to_dict()
    hidden = vision.get("embed_dim") or vision["hidden_size"]
    intermediate = vision.get("intermediate_size") or int(hidden * vision.get("mlp_ratio", 4))
    patch, frames = _side(vision.get("patch_size", 14)), vision.get("temporal_patch_size", 1)
    return Tower(
        layers=vision.get("depth") or vision.get("num_hidden_layers", 0),
        hidden=hidden,
        intermediate=intermediate,
        patches=_patches(config, vision),
        numbers=3 * frames * patch * patch,
        trained=options.train_vision,
    )


def _patches(config: Any, vision: dict[str, Any]) -> int:
    """How many patches a token covers."""
    if tokens := getattr(config, "mm_tokens_per_image", None):  # Gemma 3
        side = _side(vision["image_size"]) // _side(vision["patch_size"])
        return max(1, side**2 // int(tokens))
    if ratio := getattr(config, "downsample_ratio", None):  # InternVL
        return round(1 / float(ratio) ** 2)
    merged = (vision.get("spatial_merge_size"), getattr(config, "spatial_merge_size", None))
    return int(next(filter(None, (*merged, getattr(config, "scale_factor", None))), 1)) ** 2


def _side(size: Any) -> int:
    """A size of pixels in one direction; some configurations have both."""
    return int(size[0] if isinstance(size, list | tuple) else size)

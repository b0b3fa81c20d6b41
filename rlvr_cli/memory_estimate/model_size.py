"""The numbers of a model that decide how much memory it takes, and what parts of a pass take.

In bytes. A number that is computed with has `size` bytes.
"""

import functools
from dataclasses import dataclass
from typing import Any

from rlvr_cli.config import UpdateOptions
from rlvr_cli.errors import DataError, first_line
from rlvr_cli.kernels import sizes
from rlvr_cli.memory_estimate import cache_size, vision
from rlvr_cli.memory_estimate.cache_size import CacheSize
from rlvr_cli.models import (
    key_heads,
    loading,
    lora,
    policy as policies,
    pretrained,
    vision_part,
)
from rlvr_cli.models.policy import Policy
from rlvr_cli.runtime.device import Device

_CHUNK_BYTES = 5  # of each logit: itself in float32, and temporaries of a piece
_SAVED_BYTES = 8  # of a capped score: tanh 4 and softmax 4; in bfloat16 2 and 4, and its cast 2
_UNCAPPED_BYTES = {4: 4, 2: 6}  # of another score of eager attention: the softmax, and its cast
_TEMPORARY_BYTES = {4: 8, 2: 10}  # without gradient: before the softmax, in float32, after it
_MASKS = 2  # of eager attention: of layers with a window, and of those without


@dataclass(frozen=True)
class Shape:
    """The numbers of a model that decide its memory."""

    parameters: int  # tied ones once
    trained: int
    layers: int
    hidden: int
    intermediate: int  # of all feed-forward layers that one token goes through
    heads: int  # 0 in a model without attention
    head_dim: int  # of the widest layer
    cached: CacheSize
    vocabulary: int
    head_trained: bool = True
    eager: bool = False  # attention, which then keeps its scores in memory
    capped: bool = False  # attention scores
    norms: int = 2  # of a layer, over hidden states; counted where scores are capped
    tower: vision.Tower | None = None  # where prompts have images

    @property
    def attention(self) -> int:
        return self.heads * self.head_dim

    @property
    def head(self) -> int:
        """Weights of the output head."""
        return self.vocabulary * self.hidden


@functools.lru_cache(maxsize=8)
def shape_of(
    policy: Policy, options: UpdateOptions = UpdateOptions(), *, images: bool = False
) -> Shape:
    """The shape of a policy with the adapters that are to be trained; no weight is read.

    For prompts with `images` it has the policy's vision tower.
    """
    import torch

    path, reads_images = (policy.base or policy).path, policies.reads_images(policy)
    config = pretrained.config(path)
    try:
        with torch.device("meta"):
            model: Any = pretrained.untrained(config, reads_images=reads_images)
    except Exception as error:  # a broken file may raise anything
        raise DataError(
            f"cannot read the configuration of `{path}`: {first_line(error)}", "copy it again"
        ) from error
    if options.lora_rank:
        with torch.device("meta"):
            lora.inject(model, options, seed=0, reads_images=reads_images)
    elif reads_images and not options.train_vision:
        vision_part.freeze(model)
    text = config.get_text_config()
    values = text.to_dict()
    head, capped = model.get_output_embeddings().weight, loading.caps_attention(model)
    feed = values.get("intermediate_size") or 4 * text.hidden_size
    if isinstance(feed, list):  # one of each layer
        feed = max(feed)
    if experts := values.get("num_experts_per_tok"):
        feed = experts * (values.get("moe_intermediate_size") or feed)
    return Shape(
        parameters=sum(p.numel() for p in model.parameters()),
        trained=sum(p.numel() for p in model.parameters() if p.requires_grad),
        layers=text.num_hidden_layers,
        hidden=text.hidden_size,
        intermediate=feed,
        heads=getattr(text, "num_attention_heads", 0),
        head_dim=max((heads.size for heads in key_heads.of(config)), default=0),
        cached=cache_size.of(path, config, reads_images=reads_images),
        vocabulary=head.shape[0],
        head_trained=head.requires_grad,
        eager=capped or model.config._attn_implementation == "eager",
        capped=capped,
        norms=_norms(model, text) if capped else 2,
        tower=vision.tower_of(policy, options) if images and reads_images else None,
    )


def _norms(model: Any, text: Any) -> int:
    """How many norms over hidden states a layer has: four in Gemma 2."""
    size = (text.hidden_size,)
    norms: int = sum("norm" in name and p.shape == size for name, p in model.named_parameters())
    return (norms - 1) // int(text.num_hidden_layers)  # one follows the last layer


@dataclass(frozen=True)
class PaddedRows:
    """`tokens` tokens in rows of `longest`, padding included."""

    tokens: int
    longest: int


def activations(shape: Shape, rows: PaddedRows, size: int, *, recompute: bool) -> int:
    """What rows save for the backward pass, in numbers of `size` bytes."""
    outside = (4 + 3 * size) * shape.hidden  # the last norm, and what the head reads
    layer = _layer(shape, size, rows.longest)
    if recompute:
        layer = size * shape.hidden
        outside += _MASKS * size * rows.longest * shape.eager
    return rows.tokens * (shape.layers * layer + outside)


def _layer(shape: Shape, size: int, longest: int) -> int:
    """What a layer saves of a token of a row of `longest`.

    The float32 input and the output of the norms, in float32 too where scores are capped, the
    inputs of its linear maps, queries, keys, values and output of the attention, and four values
    of each feed-forward unit; of each head its scores where attention is eager, or only their
    logsumexp.
    """
    norms = shape.norms * _norm(shape, size)
    maps = size * (2 * shape.hidden + 4 * shape.attention + 4 * shape.intermediate)
    score = _SAVED_BYTES if shape.capped else _UNCAPPED_BYTES[size]
    return norms + maps + shape.heads * (score * longest if shape.eager else 4)


def _norm(shape: Shape, size: int) -> int:
    return (4 + (4 if shape.capped else size)) * shape.hidden


def _gradients(shape: Shape, size: int, longest: int) -> int:
    """The most that a layer's gradients take of a token beyond the activations they release.

    Those of its feed-forward units; or those of eager scores, before and after the softmax in
    float32, when everything after the attention has been released.
    """
    feed = size * (shape.intermediate + 2 * shape.hidden) + 4 * shape.hidden
    if not shape.eager:
        return feed
    scores = (4 + size) * shape.heads * longest + size * (2 * shape.attention + shape.hidden)
    released = size * (4 * shape.intermediate + shape.hidden) + (shape.norms - 1) * _norm(
        shape, size
    )
    return max(feed, scores - released)


def largest_temporary(
    shape: Shape, rows: PaddedRows, predicted: int, size: int, device: Device, *, recompute: bool
) -> int:
    """The largest temporaries of a pass with gradient: those of the logits, or of a layer.

    `predicted` of the tokens have logits. In backward the head's gradient is in memory too.
    """
    head = size * shape.head * shape.head_trained
    layer = _gradients(shape, size, rows.longest)
    if recompute:
        layer += _layer(shape, size, rows.longest)
    layer *= rows.tokens
    again = device.kind == "cuda" or predicted * shape.vocabulary > sizes.CHUNK_ELEMENTS
    return max(_logits(shape, predicted, size, device) + head * again, layer + head)


def forward(
    shape: Shape, rows: PaddedRows, size: int, *, keys: int = 0, pair: int | None = None
) -> int:
    """The largest temporaries of a pass without gradient: those of a layer.

    Where attention is eager a token has scores for `keys` keys, those of its row by default, at
    `pair` bytes each: by default what transformers keeps of every head, and its masks.
    """
    wide = 3 * shape.intermediate + 2 * shape.hidden
    widest = rows.tokens * size * max(wide, 5 * shape.attention)
    if shape.eager:
        keys = keys or rows.longest
        pair = pair or shape.heads * _TEMPORARY_BYTES[size] + _MASKS * size
        repeated = 2 * size * shape.attention * keys  # keys and values, for each query head
        row = repeated + rows.longest * (pair * keys + 3 * size * shape.attention)
        widest = max(widest, rows.tokens * row // rows.longest)
    return widest + rows.tokens * 8 * shape.hidden


def _logits(shape: Shape, tokens: int, size: int, device: Device) -> int:
    """What a GPU keeps of the logits for backward, or its slice of them; elsewhere a chunk."""
    if device.kind != "cuda":
        return logits(shape, tokens, device)
    stash = size * tokens * shape.vocabulary
    return (
        stash
        if stash <= device.total // sizes.STASH_SHARE
        else sizes.SLICE_BYTES + 4 * tokens * shape.hidden
    )


def logits(shape: Shape, tokens: int, device: Device) -> int:
    """The logits in memory in a pass without gradient: none on a GPU, elsewhere a chunk."""
    rows = max(1, sizes.CHUNK_ELEMENTS // shape.vocabulary)
    chunk = _CHUNK_BYTES * min(tokens, rows) * shape.vocabulary
    return 0 if device.kind == "cuda" else chunk


def cache(shape: Shape, rows: int, length: int, size: float) -> int:
    """The cache of rows of so many tokens, `size` bytes a number; states in float32."""
    return round(rows * (length * shape.cached.per_token * size + 4 * shape.cached.per_row))

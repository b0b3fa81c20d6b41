"""What of a model decides how much memory it takes, and what single places of a pass take.

In bytes. A number that is computed with has `size` of them.
"""

import functools
from dataclasses import dataclass
from typing import Any

from rlvr_cli import adapters
from rlvr_cli.config import UpdateOptions
from rlvr_cli.device import Device
from rlvr_cli.errors import DataError, first_line
from rlvr_cli.kernels import sizes
from rlvr_cli.policy import Policy

_CHUNK_BYTES = 5  # of each logit: itself in float32, and what is made of a piece at a time


@dataclass(frozen=True)
class Shape:
    """The numbers of a model that decide its memory."""

    parameters: int  # tied ones once
    trained: int
    layers: int
    hidden: int
    intermediate: int  # of all feed-forward layers that one token goes through
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    head_trained: bool = True

    @property
    def attention(self) -> int:
        return self.heads * self.head_dim

    @property
    def head(self) -> int:
        """Weights of the output head."""
        return self.vocabulary * self.hidden


@functools.lru_cache(maxsize=8)
def shape_of(policy: Policy, options: UpdateOptions = UpdateOptions()) -> Shape:
    """The shape of a policy with the adapters that are to be trained; no weight is read."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    path = (policy.base or policy).path
    try:
        config = AutoConfig.from_pretrained(path)
        with torch.device("meta"):
            model: Any = AutoModelForCausalLM.from_config(config)
    except Exception as error:  # a broken file may raise anything
        raise DataError(
            f"cannot read the configuration of `{path}`: {first_line(error)}", "copy it again"
        ) from error
    if options.lora_rank:
        with torch.device("meta"):
            adapters.inject(model, options, seed=0)
    text = config.get_text_config()
    values = text.to_dict()
    head = model.get_output_embeddings().weight
    feed = values.get("intermediate_size") or 4 * text.hidden_size
    if experts := values.get("num_experts_per_tok"):
        feed = experts * (values.get("moe_intermediate_size") or feed)
    return Shape(
        parameters=sum(p.numel() for p in model.parameters()),
        trained=sum(p.numel() for p in model.parameters() if p.requires_grad),
        layers=text.num_hidden_layers,
        hidden=text.hidden_size,
        intermediate=feed,
        heads=text.num_attention_heads,
        kv_heads=values.get("num_key_value_heads") or text.num_attention_heads,
        head_dim=values.get("head_dim") or text.hidden_size // text.num_attention_heads,
        vocabulary=head.shape[0],
        head_trained=head.requires_grad,
    )


def activations(shape: Shape, tokens: int, size: int, *, recompute: bool) -> int:
    """What `tokens` tokens keep for the backward pass, in numbers of `size` bytes."""
    outside = (4 + 3 * size) * shape.hidden  # the last norm, and what the head reads
    layer = size * shape.hidden if recompute else _layer(shape, size)
    return tokens * (shape.layers * layer + outside)


def _layer(shape: Shape, size: int) -> int:
    """What a layer keeps of a token.

    The float32 input and the output of two norms, the inputs of its linear maps, queries, keys,
    values and output of the attention, and four values of each feed-forward unit.
    """
    norms = 2 * (4 + size) * shape.hidden
    maps = size * (2 * shape.hidden + 4 * shape.attention + 4 * shape.intermediate)
    return norms + maps + 4 * shape.heads


def widest(
    shape: Shape, tokens: int, predicted: int, size: int, device: Device, *, recompute: bool
) -> int:
    """What the widest place of a pass with gradient holds for a moment: the logits, or a layer.

    `predicted` of the tokens have logits. On the way back the head's gradient is there too.
    """
    head = size * shape.head * shape.head_trained
    gradients = size * (shape.intermediate + 2 * shape.hidden) + 4 * shape.hidden
    layer = tokens * (gradients + (_layer(shape, size) if recompute else 0))
    again = device.kind == "cuda" or predicted * shape.vocabulary > sizes.CHUNK_ELEMENTS
    return max(_logits(shape, predicted, size, device) + head * again, layer + head)


def forward(shape: Shape, tokens: int, size: int) -> int:
    """What a pass without gradient holds at once: a layer's widest place."""
    wide = 3 * shape.intermediate + 2 * shape.hidden
    return tokens * (size * max(wide, 5 * shape.attention) + 8 * shape.hidden)


def _logits(shape: Shape, tokens: int, size: int, device: Device) -> int:
    """What a GPU keeps of the logits for the way back, or its slice of them; else a chunk."""
    if device.kind != "cuda":
        return logits(shape, tokens, device)
    stash = size * tokens * shape.vocabulary
    return (
        stash
        if stash <= device.total // sizes.STASH_SHARE
        else sizes.SLICE_BYTES + 4 * tokens * shape.hidden
    )


def logits(shape: Shape, tokens: int, device: Device) -> int:
    """What a pass without gradient holds of the logits: nothing on a GPU, elsewhere a chunk."""
    rows = max(1, sizes.CHUNK_ELEMENTS // shape.vocabulary)
    chunk = _CHUNK_BYTES * min(tokens, rows) * shape.vocabulary
    return 0 if device.kind == "cuda" else chunk


def cache(shape: Shape, tokens: int, size: int) -> int:
    """Keys and values of so many tokens."""
    return 2 * shape.layers * shape.kv_heads * shape.head_dim * size * tokens

"""A causal language model that decodes one token of each row at a time, over a static cache.

Any model of transformers whose attention goes through its AttentionInterface: what is registered
there takes the cache from the keyword arguments of the model's forward.

Shapes: B rows of the cache, R rows that get a prompt, P distinct prompts among them, S tokens of
the longest, H query heads, K key heads, D head size, L places of the cache, V vocabulary.
"""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface

from rlvr_cli import heads
from rlvr_cli.errors import UsageError
from rlvr_cli.kernels import dispatch

_NAME = "rlvr-static"
_PREFILL_TOKENS = 16384  # of prompts in one forward pass
_INSTEAD = "sample with --engine transformers or --engine vllm"


_attending: list["Decoder"] = []  # those whose models look into their caches now


class Decoder:
    """A model with the keys and values of `rows` sequences of at most `length` tokens.

    With `fuse`, torch.compile makes one kernel of what eager torch makes several of.
    """

    def __init__(self, model: Any, rows: int, length: int, *, fuse: bool = False) -> None:
        _check(model)
        self.model, self._rows, self._length = model, rows, length
        self._decode = _fused() if fuse else _forward
        self.device = next(model.parameters()).device
        self._cache: dict[int, tuple[Tensor, Tensor]] = {}

    def layer(self, index: int, key: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values of a layer, [B, K, L, D]; made when its first key is seen.

        That is [R, K, S, D] or [B, K, D].
        """
        if index not in self._cache:
            shape = (self._rows, key.shape[1], self._length, key.shape[-1])
            self._cache[index] = (key.new_zeros(shape), key.new_zeros(shape))
        return self._cache[index]

    @torch.no_grad()
    def prefill(self, prompts: list[list[int]], rows: list[int]) -> None:
        """Puts the keys and values of each row's prompt where the row has its own, from place 0.

        A prompt that several rows have is computed once.
        """
        members: dict[tuple[int, ...], list[int]] = {}
        for prompt, row in zip(prompts, rows, strict=True):
            members.setdefault(tuple(prompt), []).append(row)
        distinct = sorted(filter(None, members), key=len, reverse=True)
        start = 0
        while start < len(distinct):
            count = max(1, _PREFILL_TOKENS // len(distinct[start]))
            chunk = distinct[start : start + count]
            self._prefill(chunk, [members[prompt] for prompt in chunk])
            start += count

    def _prefill(self, prompts: list[tuple[int, ...]], rows: list[list[int]]) -> None:
        longest = max(map(len, prompts))
        padded = [[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts]
        input_PS = torch.tensor(padded, device=self.device)
        source = [i for i, members in enumerate(rows) for _ in members]
        source_R = torch.tensor(source, device=self.device)
        row_R = torch.tensor([row for members in rows for row in members], device=self.device)
        place_PS = torch.arange(longest, device=self.device)[None].expand_as(input_PS)
        _forward(self.model, input_PS, place_PS, _Prompts(self, row_R, source_R))

    def logits(self, token_B: Tensor, position_B: Tensor) -> Tensor:
        """The next-token logits [B, V] behind `token_B`, which takes the place `position_B`."""
        place = _Places(_attending.index(self), position_B)
        hidden_B1H = self._decode(self.model, token_B[:, None], position_B[:, None], place)
        return heads.of(self.model).wide_logits(hidden_B1H[:, 0])


def _forward(model: Any, input_RS: Tensor, position_RS: Tensor, static: Any) -> Tensor:
    return model.base_model(
        input_ids=input_RS, position_ids=position_RS, use_cache=False, static=static
    ).last_hidden_state


@functools.cache
def _fused() -> Any:
    """`_forward`, compiled; values are rounded where eager torch rounds them."""
    return torch.compile(_forward, dynamic=False, options={"emulate_precision_casts": True})


@torch.library.custom_op("rlvr::attend", mutates_args=())
def _attend(
    query_BHD: Tensor, key_BKD: Tensor, value_BKD: Tensor, position_B: Tensor, number: int,
    layer: int, scale: float, window: int, softcap: float,
) -> Tensor:  # fmt: skip
    """`kernels.attention.attend` in the cache of a decoder, which torch.compile does not see."""
    cache = _attending[number].layer(layer, key_BKD)
    return dispatch.attend(
        query_BHD, key_BKD, value_BKD, *cache, position_B,
        scale=scale, window=window, softcap=softcap,
    )  # fmt: skip


@_attend.register_fake
def _(query_BHD: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(query_BHD, memory_format=torch.contiguous_format)


class _Places:
    """A new token of each row at its own place, of the decoder that attends as this number."""

    def __init__(self, number: int, position_B: Tensor) -> None:
        self._number, self._position_B = number, position_B

    def __call__(
        self, layer: int, query_BH1D: Tensor, key_BK1D: Tensor, value_BK1D: Tensor,
        scale: float, window: int, softcap: float,
    ) -> Tensor:  # fmt: skip
        new = (query_BH1D[:, :, 0], key_BK1D[:, :, 0], value_BK1D[:, :, 0])
        options = (self._number, layer, scale, window, softcap)
        return _attend(*new, self._position_B, *options)[:, None]


class _Prompts:
    """Prompts from place 0, padded at the right, where no token before sees the padding."""

    def __init__(self, decoder: Decoder, row_R: Tensor, source_R: Tensor) -> None:
        self._decoder, self._row_R, self._source_R = decoder, row_R, source_R

    def __call__(
        self, layer: int, query_PHSD: Tensor, key_PKSD: Tensor, value_PKSD: Tensor,
        scale: float, window: int, softcap: float,
    ) -> Tensor:  # fmt: skip
        keys_BKLD, values_BKLD = self._decoder.layer(layer, key_PKSD)
        length = key_PKSD.shape[2]
        keys_BKLD[self._row_R, :, :length] = key_PKSD[self._source_R]
        values_BKLD[self._row_R, :, :length] = value_PKSD[self._source_R]
        made_PHSD = _causal(query_PHSD, key_PKSD, value_PKSD, scale, window, softcap)
        return made_PHSD.transpose(1, 2)


def _causal(
    query_PHSD: Tensor, key_PKSD: Tensor, value_PKSD: Tensor,
    scale: float, window: int, softcap: float,
) -> Tensor:  # fmt: skip
    """The attention of whole prompts, [P, H, S, D]."""
    length = query_PHSD.shape[2]
    place_S = torch.arange(length, device=query_PHSD.device)
    seen_SS = place_S[:, None] >= place_S
    if window:
        seen_SS &= place_S[:, None] - place_S < window
    if not softcap:
        narrow = 0 < window < length
        return torch.nn.functional.scaled_dot_product_attention(
            query_PHSD, key_PKSD, value_PKSD, attn_mask=seen_SS if narrow else None,
            is_causal=not narrow, scale=scale, enable_gqa=True,
        )  # fmt: skip
    group = query_PHSD.shape[1] // key_PKSD.shape[1]
    key_PHSD, value_PHSD = (v.repeat_interleave(group, 1) for v in (key_PKSD, value_PKSD))
    score_PHSS = (query_PHSD @ key_PHSD.mT).float() * scale
    score_PHSS = (score_PHSS / softcap).tanh() * softcap
    weight_PHSS = score_PHSS.masked_fill(~seen_SS, -torch.inf).softmax(-1)
    return weight_PHSS.to(value_PHSD.dtype) @ value_PHSD


def _attention(
    module: Any,
    query_RHSD: Tensor,
    key_RKSD: Tensor,
    value_RKSD: Tensor,
    attention_mask: Any = None,
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    static: Any = None,
    s_aux: Any = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in every layer; [R, S, H, D]."""
    if static is None or s_aux is not None:
        raise UsageError(
            f"the attention of {type(module).__name__} does not go with a static cache", _INSTEAD
        )
    made_RSHD = static(
        module.layer_idx, query_RHSD, key_RKSD, value_RKSD,
        query_RHSD.shape[-1] ** -0.5 if scaling is None else scaling,
        sliding_window or 0, softcap or 0.0,
    )  # fmt: skip
    return made_RSHD, None


AttentionInterface.register(_NAME, _attention)


@contextlib.contextmanager
def attending(*decoders: Decoder) -> Iterator[None]:
    """Lets the models, which a trainer may hold too, attend to these caches for a while."""
    models = [decoder.model for decoder in decoders]
    before = [model.config._attn_implementation for model in models]
    for model in models:
        model.set_attn_implementation(_NAME)
    _attending[:] = decoders
    try:
        yield
    finally:
        _attending.clear()
        for model, name in zip(models, before, strict=True):
            model.set_attn_implementation(name)


def _check(model: Any) -> None:
    """Refuses a model whose layers keep something else than keys and values of all tokens."""
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if others := sorted(kinds - {"full_attention", "sliding_attention"}):
        raise UsageError(
            f"layers of {type(model).__name__} are of kind {others[0]}, which the graph engine "
            "does not know",
            _INSTEAD,
        )
    rope = getattr(config, "rope_parameters", None) or {}
    kind = rope.get("rope_type", "default")
    if model.device.type == "cuda" and kind in ("dynamic", "longrope"):
        raise UsageError(
            f"positions of {type(model).__name__} are of kind {kind}, which depends on the longest "
            "row and cannot be captured",
            _INSTEAD,
        )

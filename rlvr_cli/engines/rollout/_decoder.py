"""A causal language model that decodes one token of each row at a time, over a static cache.

Shapes: B rows that are decoded, R rows that get a prompt, P distinct prompts among them, S tokens
of the longest, K key heads, D head size, L positions of the cache, V vocabulary.
"""

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rlvr_cli.engines.rollout._attend import (
    INSTEAD,
    Cached,
    CachedCodes,
    Heads,
    attending,
    causal,
)
from rlvr_cli.engines.rollout._cache import PlainCache
from rlvr_cli.engines.rollout._fused import fused
from rlvr_cli.engines.rollout._invariant import Invariant, by_kernels, linear, wide_linear
from rlvr_cli.engines.rollout._merged import groups_of, merged
from rlvr_cli.errors import UsageError
from rlvr_cli.kernels.coded import CodedCache
from rlvr_cli.models import engine_choice, lm_head
from rlvr_cli.runtime.device import moved

_PREFILL_TOKENS = 16384  # of prompts in one forward pass


class Decoder:
    """A model with the keys and values of `rows` sequences of at most `length` tokens.

    With `fuse`, torch.compile makes one kernel of what eager torch makes several of. With `merge`,
    layers of the same input are one product, and the tiles of attention depend on the rows. With
    `deterministic` no bits do: by kernels, or if `by_rows` as each row is computed by itself. With
    `coded` keys and values are kept as int8.
    """

    def __init__(
        self, model: Any, rows: int, length: int, *,
        fuse: bool = False, merge: bool = False, deterministic: bool = False, coded: bool = False,
    ) -> None:  # fmt: skip
        _check(model)
        self.model, self._rows, self._length, self._fuse = model, rows, length, fuse
        self._groups = groups_of(model) if merge else []
        self.deterministic = deterministic
        self.tiles_by_rows = merge and not deterministic
        self.by_rows = deterministic and not by_kernels(model)
        self.invariant = Invariant(model) if deterministic and not self.by_rows else None
        self.device = next(model.parameters()).device
        self._coded = coded
        self._cache: dict[int, PlainCache | CodedCache] = {}
        checked = self.invariant.checked() if self.invariant else contextlib.nullcontext()
        with attending(model), checked:  # lets its layers allocate their caches
            self._prefill([(0,)], [[0]])

    def layer(self, index: int) -> PlainCache | CodedCache:
        return self._cache[index]

    def put(
        self, index: int, prompts: Heads, length_P: Tensor, row_R: Tensor, source_R: Tensor
    ) -> None:
        """Writes a layer's keys and values of prompts [P, K, S, D] to the caches of rows."""
        both = (prompts.key, prompts.value)
        if index not in self._cache:
            kind = CodedCache if self._coded else PlainCache
            self._cache[index] = kind.empty(self._rows, self._length, *both)
        self._cache[index].put(*both, length_P, row_R, source_R)

    @torch.no_grad()
    def prefill(self, prompts: list[list[int]], rows: list[int]) -> None:
        """Fills each row's cache with its prompt's keys and values, from position 0.

        A prompt that several rows share is computed once.
        """
        members: dict[tuple[int, ...], list[int]] = {}
        for prompt, row in zip(prompts, rows, strict=True):
            members.setdefault(tuple(prompt), []).append(row)
        for cache in self._cache.values() if () in members else ():
            cache.clear(to_device(members[()], self.device))
        distinct = sorted(filter(None, members), key=len, reverse=True)
        start = 0
        while start < len(distinct):
            count = 1 if self.by_rows else max(1, _PREFILL_TOKENS // len(distinct[start]))
            chunk = distinct[start : start + count]
            with self._layers():
                self._prefill(chunk, [members[prompt] for prompt in chunk])
            start += count

    def _layers(self) -> contextlib.AbstractContextManager[None]:
        return self.invariant.layers() if self.invariant else contextlib.nullcontext()

    @torch.no_grad()
    def _prefill(self, prompts: list[tuple[int, ...]], rows: list[list[int]]) -> None:
        longest = max(map(len, prompts))
        padded = [[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts]
        source = [i for i, members in enumerate(rows) for _ in members]
        row_R = to_device([row for members in rows for row in members], self.device)
        position_PS = torch.arange(longest, device=self.device)[None].expand(len(prompts), -1)
        length_P = to_device([len(prompt) for prompt in prompts], self.device)
        prompts_of = _PromptTokens(self, length_P, row_R, to_device(source, self.device))
        _forward(self.model, to_device(padded, self.device), position_PS, prompts_of)

    def logits(self, token_B: Tensor, position_B: Tensor, first: int = 0) -> Tensor:
        """The next-token logits [B, V] after `token_B`, which is written to `position_B`.

        For the rows from `first` on, as many as there are tokens.
        """
        compiling = fused(self.model) if self._fuse else contextlib.nullcontext()
        product = linear if self.invariant else torch.nn.functional.linear
        with compiling, merged(self._groups, product), self._layers():
            caches = _NewTokens(self, position_B, first)
            hidden_B1H = _forward(self.model, token_B[:, None], position_B[:, None], caches)
        logits_BV: Tensor = lm_head.of(self.model).wide_logits(
            hidden_B1H[:, 0], wide_linear if self.invariant else None
        )
        return logits_BV

    def move(self, source_R: Tensor, row_R: Tensor, length: int) -> None:
        """Copies the first positions of source rows to other rows; the two sets are disjoint."""
        for cache in self._cache.values():
            cache.move(source_R, row_R, length)


@torch.no_grad()
def decoded(model: Any, texts: list[list[int]], steps: int) -> Tensor:
    """The logits [B, T, V] before each of the last `steps` tokens of texts, decoded eagerly."""
    decoder = Decoder(model, len(texts), max(map(len, texts)))
    first = [text[: len(text) - steps] for text in texts]
    logits = []
    with attending(model):
        decoder.prefill([text[:-1] for text in first], list(range(len(texts))))
        for step in range(steps):
            place = [len(prompt) - 1 + step for prompt in first]
            token = [text[at] for text, at in zip(texts, place, strict=True)]
            token_B, position_B = (to_device(value, decoder.device) for value in (token, place))
            logits.append(decoder.logits(token_B, position_B))
    return torch.stack(logits, 1)


def to_device(
    values: Sequence[Any], device: torch.device, dtype: torch.dtype = torch.int64
) -> Tensor:
    """A tensor of numbers on the device; the host does not wait for the copy."""
    return moved(torch.tensor(values, dtype=dtype, device="cpu"), device)


def _forward(model: Any, input_RS: Tensor, position_RS: Tensor, static: Any) -> Tensor:
    hidden_RSH: Tensor = model.base_model(
        input_ids=input_RS, position_ids=position_RS, use_cache=False, static=static
    ).last_hidden_state
    return hidden_RSH


class _NewTokens:
    """A new token of each row at its own position."""

    def __init__(self, decoder: Decoder, position_B: Tensor, first: int) -> None:
        self._decoder, self._position_B = decoder, position_B
        self._rows = slice(first, first + len(position_B))

    def of(self, layer: int) -> Cached | CachedCodes:
        cache = self._decoder.layer(layer).rows(self._rows)
        if isinstance(cache, CodedCache):
            return CachedCodes(cache, self._position_B)
        return Cached(*cache, self._position_B, self._decoder.tiles_by_rows)

    def attend(self, layer: int, new: Heads) -> Tensor:
        return self.of(layer).attend(layer, new)


class _PromptTokens:
    """Prompts from position 0, which fill the caches of rows."""

    def __init__(self, decoder: Decoder, length_P: Tensor, row_R: Tensor, source_R: Tensor) -> None:
        self._decoder, self._where = decoder, (length_P, row_R, source_R)
        self._filled: set[int] = set()

    def attend(self, layer: int, prompts: Heads) -> Tensor:
        if layer in self._filled:
            raise _refusal(self._decoder.model, "it passes through a layer several times")
        self._filled.add(layer)
        self._decoder.put(layer, prompts, *self._where)
        return causal(prompts, by_kernel=self._decoder.invariant is not None)


def _check(model: Any) -> None:
    """Refuses a model whose layers keep anything but keys and values of all tokens."""
    if why := engine_choice.obstacle(model.config, model.device.type):
        raise _refusal(model, why)


def _refusal(model: Any, why: str) -> UsageError:
    return UsageError(f"the graph engine cannot run {type(model).__name__}: {why}", INSTEAD)

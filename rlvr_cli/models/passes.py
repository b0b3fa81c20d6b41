"""How a training engine passes the rows of a micro-batch through a model.

Padding costs what a token costs, and each new shape of padded rows makes cuDNN plan its attention
anew; unfused layers are a third of a pass. So rows are packed and layers compiled where that is
known to work.

Shapes: S tokens of all rows.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlvr_cli.errors import UsageError
from rlvr_cli.models import (
    compiled_layers,
    logprobs,
    packed_attention,
    packed_flash4,
    packing,
    processors,
)
from rlvr_cli.protocols import Row
from rlvr_cli.runtime import device

_LEAST = 4096  # tokens; with fewer torch.compile makes other graphs of a layer
_LARGE = 100_000_000  # parameters from which on compiled layers repay what compiling takes
_PROBE = (7, 19, 4)  # lengths of rows
_ROUNDING = 1e-5  # between the states of packed and of single rows, of the largest, in float32


@dataclass(frozen=True)
class Pass:
    """How a training engine passes rows through a model: padded or packed, compiled or not."""

    model: Any
    packed: bool
    compiled: bool
    micro_batch_tokens: int
    attention: device.Attention = "torch"

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        """Within the context, backward passes included, the model takes rows this way."""
        with contextlib.ExitStack() as stack:
            if self.packed:
                other = packed_flash4.attend if self.attention == "flash4" else None
                stack.enter_context(packed_attention.of(self.model, other))
            if self.compiled:
                stack.enter_context(compiled_layers.for_training(self.model))
            yield

    def micro_batches(self, rows: list[Row]) -> Iterator[list[int]]:
        """Indices of rows, longest first; the cut depends only on their sizes."""
        if self.packed:
            return packing.batches([row.size for row in rows], self.micro_batch_tokens)
        return logprobs.micro_batches(rows, self.micro_batch_tokens)

    @property
    def least(self) -> int | None:
        """The tokens that packed rows are filled up to; None of padded ones."""
        if not self.packed:
            return None
        return min(_LEAST, self.micro_batch_tokens) if self.compiled else 0


def chosen(
    model: Any, tokens: int, dtype: torch.dtype,
    pack: device.Switch, fuse: device.Switch, attention: device.Attention = "torch",
) -> Pass:  # fmt: skip
    """The pass of a model, with micro-batches of so many tokens, that three options ask for.

    `auto` packs rows where FlashAttention runs and the model keeps packed rows apart; and compiles
    the layers of a large model on a GPU. The model is in float32 still, and is to compute in
    `dtype`.
    """
    packs = pack == "true"
    if packs and processors.of(model):
        raise UsageError(
            f"{type(model).__name__} reads images, and rows with images are not packed",
            "leave pack=true out",
        )
    if packs and not keeps_rows_apart(model):
        raise UsageError(
            f"{type(model).__name__} cannot be given packed rows: its tokens would see other rows",
            "leave pack=true out",
        )
    is_fast = dtype == torch.bfloat16 and packed_attention.is_fast(model)
    if pack == "auto" and is_fast and not processors.of(model):
        packs = keeps_rows_apart(model)
    if attention == "flash4":
        if not packs or dtype != torch.bfloat16:
            raise UsageError(
                "attention=flash4 is for packed rows in bfloat16, and these are not",
                "leave attention=flash4 out",
            )
        packed_flash4.check(model)
    fuses = fuse == "true"
    if fuse == "auto" and model.device.type == "cuda" and model.num_parameters() >= _LARGE:
        fuses = bool(compiled_layers.layers_of(model))
    return Pass(model, packs, fuses, tokens, attention)


def keeps_rows_apart(model: Any) -> bool:
    """Whether a model gives of packed rows what it gives of single ones, to rounding.

    That is not so of models with a state that runs on along a row, as Mamba has, or with what this
    attention does not know: a window, a cap, a sink. It is tried, in float32, with a few tokens.
    """
    kinds = getattr(model.config.get_text_config(), "layer_types", None) or ["full_attention"]
    if set(kinds) != {"full_attention"} or _windowed(model):
        return False  # which so few tokens would not show
    chance = np.random.default_rng(0)
    size = model.get_input_embeddings().weight.shape[0]
    ids = [chance.integers(0, size, length).tolist() for length in _PROBE]
    rows = [Row(row[:1], row[1:], advantage=0.0) for row in ids]
    with torch.no_grad():
        single_SH = torch.cat(
            [_states(model, packing.pack([row], model.device), row.size) for row in rows]
        )
        packed = packing.pack(rows, model.device)
        try:
            with packed_attention.of(model):
                packed_SH = _states(model, packed, sum(_PROBE), packed=packed.ends)
        except (TypeError, ValueError, RuntimeError):  # code that does not know such an attention
            return False
    return bool((packed_SH - single_SH).abs().max() <= _ROUNDING * single_SH.abs().max())


def _windowed(model: Any) -> bool:
    """Whether attention may be limited to the latest tokens by the configuration."""
    config = model.config.get_text_config()
    is_on = getattr(config, "use_sliding_window", True)
    return bool(is_on and getattr(config, "sliding_window", None))


def _states(model: Any, rows: packing.PackedRows, size: int, **options: Any) -> Tensor:
    """The hidden states of the first `size` tokens, [size, hidden]."""
    passed = model.base_model(
        input_ids=rows.token_1S, position_ids=rows.place_1S, use_cache=False, **options
    )
    states_SH: Tensor = passed.last_hidden_state[0, :size]
    return states_SH

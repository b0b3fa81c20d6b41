"""Log-probs and entropies of stored completions under a policy.

Shapes: B rows, S prompt and completion tokens, T completion tokens, N trained tokens, H hidden,
K top-k.
"""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.kernels import dispatch
from rlvr_cli.models import images, lm_head, packing
from rlvr_cli.protocols import Floats, Row
from rlvr_cli.runtime.device import moved

_SMALL = 20_000_000  # parameters
_THREADS = torch.get_num_threads()


class CompletionStats(NamedTuple):
    mask_BT: Tensor
    logp_BT: Tensor  # nats, 0 where masked
    entropy_BT: Tensor  # nats, 0 where masked
    max_prob_BT: Tensor  # 0 where masked
    anchor_logp_BT: Tensor | None = None  # nats, -inf where the anchor set is empty, 0 where masked
    at_N: Tensor | None = None  # the trained tokens in the flattened mask


class TopK(NamedTuple):
    ids_BTK: Tensor  # 0 where masked
    logp_BTK: Tensor  # nats, 0 where masked


def micro_batches(rows: list[Row], tokens: int) -> Iterator[list[int]]:
    """Indices of rows, longest first, in runs whose padded size stays within `tokens`.

    At least one row each. The cut depends only on the lengths, so that another forward pass of the
    same rows, for their old log-probs say, has the same bits.
    """
    lengths = [row.size for row in rows]
    order = sorted(range(len(rows)), key=lambda i: -lengths[i])
    start = 0
    while start < len(order):
        stop = start + max(1, tokens // max(1, lengths[order[start]]))
        yield order[start:stop]
        start = stop


def fit_threads(model: Any) -> None:
    """One thread for a small model: a second one costs more than it gives.

    It depends only on the model, so results do not depend on what else a process has loaded.
    """
    torch.set_num_threads(1 if model.num_parameters() < _SMALL else _THREADS)


def dtype_of(precision: str, device: torch.device) -> torch.dtype:
    """What a named precision means on a device; `auto` is bfloat16 on a GPU, float32 elsewhere."""
    if precision == "auto":
        precision = "bfloat16" if device.type == "cuda" else "float32"
    return {"bfloat16": torch.bfloat16, "float32": torch.float32}[precision]


@contextlib.contextmanager
def recomputing(model: Any, wanted: bool) -> Iterator[None]:
    """Has a model's layers keep only their inputs and compute the rest again in backward."""
    if not wanted:
        yield
        return
    from transformers.modeling_layers import GradientCheckpointingLayer

    layers = [m for m in model.modules() if isinstance(m, GradientCheckpointingLayer)]
    if not layers:
        raise UsageError(
            f"{type(model).__name__} has no layers that compute their activations again",
            "leave --recompute-activations out",
        )
    dropouts = [{k: v for k, v in vars(layer).items() if "dropout" in k} for layer in layers]
    for layer, dropout in zip(layers, dropouts, strict=True):
        layer._gradient_checkpointing_func = functools.partial(checkpoint, use_reentrant=False)
        # A layer recomputes in training mode alone; the modules in it stay in evaluation mode.
        layer.gradient_checkpointing = layer.training = True
        vars(layer).update(dict.fromkeys(dropout, 0.0))
    yield
    for layer, dropout in zip(layers, dropouts, strict=True):
        layer.gradient_checkpointing = layer.training = False
        vars(layer).update(dropout)


def completion_stats(
    model: Any,
    rows: list[Row],
    *,
    temperature: float,
    entropy_gradient: bool = False,
    top_k: int = 0,
    packed: int | None = None,
) -> CompletionStats:
    """The statistics of each completion token, given the prompt and the tokens before it.

    With `top_k`, the policy's mass on a token's anchor set too: the reference policy's `top_k`
    likeliest tokens, as the rows have them, without the token itself. With `packed`, the least
    number of tokens of a pass, rows are not padded: only within a `packing.Pass`.
    """
    states = _states(model, rows) if packed is None else _packed_states(model, rows, packed)
    return _stats(states, rows, temperature, entropy_gradient, top_k)


def with_top_k(
    model: Any, rows: list[Row], k: int, *, temperature: float
) -> tuple[CompletionStats, TopK]:
    """`completion_stats` and the k likeliest tokens at each position, from one forward pass."""
    states = _states(model, rows)
    with _kernel_errors():
        ids_NK, logp_NK = dispatch.top_k(
            states.hidden_NH, states.head.weight_VH, k, **states.head.options(temperature)
        )
    top_k = TopK(_scatter(ids_NK, states.mask_BT), _scatter(logp_NK, states.mask_BT))
    return _stats(states, rows, temperature, False, 0), top_k


def with_collision(
    model: Any, rows: list[Row], *, temperature: float
) -> tuple[CompletionStats, Tensor]:
    """`completion_stats` and the sum of squared probabilities [B, T], from one forward pass."""
    states = _states(model, rows)
    with _kernel_errors():
        collision_N = dispatch.collision(
            states.hidden_NH, states.head.weight_VH, **states.head.options(temperature)
        )
    collision_BT = _scatter(collision_N, states.mask_BT)
    return _stats(states, rows, temperature, False, 0), collision_BT


class _States(NamedTuple):
    mask_BT: Tensor
    at_N: Tensor  # the completions' tokens in the flattened mask
    hidden_NH: Tensor  # what each completion token is predicted from
    target_N: Tensor
    head: lm_head.OutputHead


def _states(model: Any, rows: list[Row]) -> _States:
    """One forward pass of the model below its head.

    Rows are padded at the right, so a causal model's attention needs no mask: no token sees the
    padding that follows it. Padding is known from the stored lengths, never from a pad id.
    """
    device = _prepared(model, rows)
    length = max(row.size for row in rows)
    token_BS = np.zeros((len(rows), length), dtype=np.int64)
    for token_S, row in zip(token_BS, rows, strict=True):
        token_S[: len(row.prompt_token_ids)] = row.prompt_token_ids
        token_S[len(row.prompt_token_ids) : row.size] = row.token_ids
    trained_BT = _mask(rows)
    index_N, offset_N = trained_BT.nonzero()
    places_N = np.array([len(row.prompt_token_ids) for row in rows])[index_N] + offset_N
    input_BS, row_N, place_N, mask_BT, at_N = (
        moved(torch.from_numpy(value), device)
        for value in (token_BS, index_N, places_N, trained_BT, np.flatnonzero(trained_BT))
    )
    shown = [row.images for row in rows]
    pixels = images.inputs(model, input_BS, shown)
    with images.seen_once(model, shown):
        passed = model.base_model(input_ids=input_BS, use_cache=False, **pixels)
    hidden_BSH = passed.last_hidden_state
    hidden_NH = hidden_BSH[row_N, place_N - 1]
    return _States(mask_BT, at_N, hidden_NH, input_BS[row_N, place_N], lm_head.of(model))


def _packed_states(model: Any, rows: list[Row], least: int) -> _States:
    device = _prepared(model, rows)
    packed = packing.pack(rows, device, least=least)
    trained_BT = _mask(rows)
    index_N, offset_N = trained_BT.nonzero()
    first_B = np.cumsum([len(row.prompt_token_ids) for row in rows])
    first_B[1:] += np.cumsum([len(row.token_ids) for row in rows])[:-1]
    place_N, at_N, mask_BT = (
        moved(torch.from_numpy(value), device)
        for value in (first_B[index_N] + offset_N, np.flatnonzero(trained_BT), trained_BT)
    )
    hidden_SH = model.base_model(
        input_ids=packed.token_1S, position_ids=packed.place_1S, use_cache=False, packed=packed.ends
    ).last_hidden_state[0]
    target_N = packed.token_1S[0, place_N]
    return _States(mask_BT, at_N, hidden_SH[place_N - 1], target_N, lm_head.of(model))


def _mask(rows: list[Row]) -> np.ndarray:
    """True on the tokens of completions, at the left of [B, T]."""
    length_B = np.array([len(row.token_ids) for row in rows])
    mask_BT: np.ndarray = np.arange(length_B.max()) < length_B[:, None]
    return mask_BT


def _prepared(model: Any, rows: list[Row]) -> torch.device:
    """The device of a model that is about to read rows; an error if one has no prompt."""
    fit_threads(model)
    if not all(len(row.prompt_token_ids) for row in rows):
        raise DataError("a completion has no prompt")
    device: torch.device = next(model.parameters()).device
    return device


def _stats(
    states: _States, rows: list[Row], temperature: float, entropy_gradient: bool, top_k: int
) -> CompletionStats:
    mask_BT = states.mask_BT
    topk_NK = None
    if top_k:
        topk_NK = _anchor_ids(rows, top_k)
        _check_ids(topk_NK, states.head.weight_VH.shape[0])
        topk_NK = moved(topk_NK, mask_BT.device)
    with _kernel_errors():
        stats = dispatch.token_stats(
            states.hidden_NH,
            states.head.weight_VH,
            states.target_N,
            entropy_gradient=entropy_gradient,
            topk_NK=topk_NK,
            **states.head.options(temperature),
        )
    logp_BT, entropy_BT, max_prob_BT = (_scatter(value_N, mask_BT) for value_N in stats[:3])
    anchor_N = stats.anchor_logp_N
    anchor_BT = None if anchor_N is None else _scatter(anchor_N, mask_BT)
    return CompletionStats(mask_BT, logp_BT, entropy_BT, max_prob_BT, anchor_BT, states.at_N)


@contextlib.contextmanager
def _kernel_errors() -> Iterator[None]:
    """Turns what the kernels refuse into errors with hints."""
    try:
        yield
    except dispatch.Unsupported as error:
        raise UsageError(str(error), f"leave {dispatch.VARIABLE} out") from error
    except dispatch.BadInput as error:
        raise DataError(
            f"the policy gives no log-probs: {error}",
            "go back to an earlier checkpoint; a NaN means that its weights are damaged",
        ) from error


def _anchor_ids(rows: list[Row], top_k: int) -> Tensor:
    """The reference policy's `top_k` likeliest tokens, -1 for the sampled one, [N, K]."""
    ids_NK = np.concatenate([row.ref_topk_ids[:, :top_k] for row in rows]).astype(np.int64)
    token_N = np.concatenate([np.asarray(row.token_ids, dtype=np.int64) for row in rows])
    ids_NK[ids_NK == token_N[:, None]] = -1
    return torch.from_numpy(ids_NK)


def _check_ids(topk_NK: Tensor, vocabulary: int) -> None:
    if topk_NK.numel() and topk_NK.max() >= vocabulary:
        raise DataError(
            f"the reference policy's likeliest tokens hold id {int(topk_NK.max())}, the "
            f"vocabulary of the policy has {vocabulary} tokens",
            "name a reference policy with the same tokenizer",
        )


def anchor_ref_logp(rows: list[Row], mask_BT: Tensor, dtype: torch.dtype, *, top_k: int) -> Tensor:
    """Log of the reference policy's mass on each token's anchor set, [B, T].

        log sum_{k in S} pi_ref(k),  S = the first `top_k` tokens without the sampled one

    -inf where S is empty, 0 where masked.
    """
    logp_NK = np.concatenate([row.ref_topk_logp[:, :top_k] for row in rows])
    anchor_NK = torch.from_numpy(logp_NK).to(dtype)
    anchor_NK = anchor_NK.masked_fill(_anchor_ids(rows, top_k) < 0, -torch.inf)
    return _scatter(moved(anchor_NK.logsumexp(-1), mask_BT.device), mask_BT)


def _scatter(value_N: Tensor, mask_BT: Tensor) -> Tensor:
    """Values of tokens, [N] or [N, K], at their positions in [B, T] or [B, T, K]; 0 elsewhere."""
    shape = (*mask_BT.shape, *value_N.shape[1:])
    zero = torch.zeros(shape, dtype=value_N.dtype, device=value_N.device)
    return zero.masked_scatter(mask_BT.view(*mask_BT.shape, *[1] * (value_N.ndim - 1)), value_N)


def pad(values: list[Floats], mask_BT: Tensor, dtype: torch.dtype) -> Tensor:
    """Per-token values of each row at the left of a [B, T] tensor, 0 elsewhere."""
    value_N = torch.from_numpy(np.concatenate([np.asarray(row, np.float64) for row in values]))
    return _scatter(moved(value_N.to(dtype), mask_BT.device), mask_BT)


def unpad(value_BT: Tensor, rows: list[Row]) -> list[np.ndarray]:
    """The per-token values of each row, [T] or [T, K], without the padding."""
    padded = value_BT.cpu().numpy()
    return [value_T[: len(row.token_ids)] for value_T, row in zip(padded, rows, strict=True)]

"""Log-probs and entropies of stored completions under a policy.

Shapes: B rows, S prompt and completion tokens, T completion tokens, N trained tokens, H hidden.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rlvr_cli.errors import DataError
from rlvr_cli.kernels.reference import token_stats
from rlvr_cli.protocols import Row

_SMALL = 20_000_000  # parameters
_THREADS = torch.get_num_threads()


class Stats(NamedTuple):
    mask_BT: Tensor
    logp_BT: Tensor  # nats, 0 where masked
    entropy_BT: Tensor  # nats, 0 where masked
    max_prob_BT: Tensor  # 0 where masked


def micro_batches(rows: list[Row], tokens: int) -> Iterator[list[Row]]:
    """Runs of rows whose padded size stays within `tokens`; one row at least."""
    batch: list[Row] = []
    longest = 0
    for row in rows:
        length = len(row.prompt_token_ids) + len(row.token_ids)
        if batch and max(longest, length) * (len(batch) + 1) > tokens:
            yield batch
            batch, longest = [], 0
        batch.append(row)
        longest = max(longest, length)
    if batch:
        yield batch


def fit_threads(model: Any) -> None:
    """One thread for a small model: a second one costs more than it gives.

    By the model alone, so that results do not depend on what else a process has loaded.
    """
    torch.set_num_threads(1 if model.num_parameters() < _SMALL else _THREADS)


def completion_stats(
    model: Any, rows: list[Row], *, temperature: float, entropy_gradient: bool = False
) -> Stats:
    """The statistics of each completion token, given the prompt and the tokens before it.

    Rows are padded at the right; masks come from the stored lengths, never from a pad id.
    """
    fit_threads(model)
    device = next(model.parameters()).device
    if not all(row.prompt_token_ids for row in rows):
        raise DataError("a completion has no prompt")
    sequences = [row.prompt_token_ids + row.token_ids for row in rows]
    length = max(map(len, sequences))
    input_BS = torch.tensor([s + [0] * (length - len(s)) for s in sequences], device=device)
    size_B = torch.tensor([len(s) for s in sequences], device=device)
    attention_BS = torch.arange(length, device=device) < size_B[:, None]
    hidden_BSH = model.base_model(
        input_ids=input_BS, attention_mask=attention_BS.long(), use_cache=False
    ).last_hidden_state

    prompt_B = torch.tensor([len(row.prompt_token_ids) for row in rows], device=device)
    width = max(len(row.token_ids) for row in rows)
    offset_T = torch.arange(width, device=device)
    mask_BT = offset_T < (size_B - prompt_B)[:, None]
    where_BT = (prompt_B[:, None] + offset_T).clamp(max=length - 1)
    row_N, _ = mask_BT.nonzero(as_tuple=True)
    at_N = where_BT[mask_BT]
    head = model.get_output_embeddings()
    stats = token_stats(
        hidden_BSH[row_N, at_N - 1],
        head.weight,
        input_BS[row_N, at_N],
        bias_V=getattr(head, "bias", None),
        temperature=temperature,
        entropy_gradient=entropy_gradient,
    )
    return Stats(mask_BT, *(_spread(value_N, mask_BT) for value_N in stats))


def _spread(value_N: Tensor, mask_BT: Tensor) -> Tensor:
    zero_BT = torch.zeros(mask_BT.shape, dtype=value_N.dtype, device=value_N.device)
    return zero_BT.masked_scatter(mask_BT, value_N)


def pad(values: list[list[float]], mask_BT: Tensor, dtype: torch.dtype) -> Tensor:
    """Lists of per-token values at the left of a [B, T] tensor, 0 elsewhere."""
    flat = [value for row in values for value in row]
    return _spread(torch.tensor(flat, dtype=dtype, device=mask_BT.device), mask_BT)


def unpad(value_BT: Tensor, rows: list[Row]) -> list[list[float]]:
    """The per-token values of each row, without the padding."""
    return [
        value_T[: len(row.token_ids)] for value_T, row in zip(value_BT.tolist(), rows, strict=True)
    ]

"""Concatenates the rows of a micro-batch, without padding between them.

Shapes: B rows, S tokens of all of them.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rlvr_cli.models.packed_attention import Ends
from rlvr_cli.protocols import Row
from rlvr_cli.runtime.device import moved

_STEP = 128  # tokens; the number of packed ones is a multiple of it


class PackedRows(NamedTuple):
    """Token ids and their places in their rows, [1, S]; the last rows may be a filling."""

    token_1S: Tensor
    place_1S: Tensor
    ends: Ends


def pack(rows: list[Row], device: torch.device, *, least: int = 0) -> PackedRows:
    """Prompts and completions in the order of the rows, filled up to `least` tokens or more."""
    sizes = [row.size for row in rows]
    total = -(-max(sum(sizes), least) // _STEP) * _STEP
    longest = max(sizes)
    rest = total - sum(sizes)
    sizes += [longest] * (rest // longest) + [rest % longest] * bool(rest % longest)
    token_S = np.zeros(total, np.int64)
    start = 0
    for row in rows:
        middle = start + len(row.prompt_token_ids)
        token_S[start:middle] = row.prompt_token_ids
        token_S[middle : start + row.size] = row.token_ids
        start += row.size
    place_S = np.concatenate([np.arange(size) for size in sizes])
    ends = Ends(
        moved(torch.from_numpy(np.cumsum([0, *sizes], dtype=np.int32)), device),
        torch.tensor(longest, dtype=torch.int32, device="cpu"),
    )
    token_1S, place_1S = (moved(torch.from_numpy(v)[None], device) for v in (token_S, place_S))
    return PackedRows(token_1S, place_1S, ends)


def batches(sizes: list[int], tokens: int) -> Iterator[list[int]]:
    """Indices of rows of these sizes, longest first, in runs of at most so many tokens.

    At least one row each. The cut depends only on the sizes.
    """
    batch: list[int] = []
    held = 0
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        if batch and held + sizes[i] > tokens:
            yield batch
            batch, held = [], 0
        batch.append(i)
        held += sizes[i]
    if batch:
        yield batch

"""The checks of all implementations, so that all refuse the same inputs.

Shapes: N tokens, H hidden, V vocabulary, K top-k.
"""

import math

import torch
from torch import Tensor


class BadInput(ValueError):
    """An input of a kernel is wrong; the message says what, where and the value."""


def token_stats(
    hidden_NH: Tensor,
    head_VH: Tensor,
    target_N: Tensor,
    bias_V: Tensor | None,
    topk_NK: Tensor | None,
    temperature: float,
    softcap: float | None,
    vocabulary: int | None,
) -> int:
    """The number of tokens in the vocabulary; BadInput for inputs without statistics."""
    size = logits(hidden_NH, head_VH, bias_V, temperature, softcap, vocabulary)
    count = len(hidden_NH)
    if target_N.shape != (count,) or target_N.is_floating_point():
        raise BadInput(
            f"target_N is {target_N.dtype} of shape {list(target_N.shape)}, {count} ids are needed"
        )
    if topk_NK is not None and (topk_NK.ndim != 2 or len(topk_NK) != count):
        raise BadInput(f"topk_NK has shape {list(topk_NK.shape)}, {count} rows are needed")
    for name, value in (("target_N", target_N), ("topk_NK", topk_NK)):
        if value is not None and value.device != hidden_NH.device:
            raise BadInput(f"{name} is on {value.device}, hidden_NH on {hidden_NH.device}")
    return size


def logits(
    hidden_NH: Tensor,
    head_VH: Tensor,
    bias_V: Tensor | None,
    temperature: float,
    softcap: float | None,
    vocabulary: int | None,
) -> int:
    """The number of tokens in the vocabulary; BadInput for operands that give no logits."""
    if hidden_NH.ndim != 2 or head_VH.ndim != 2 or hidden_NH.shape[1] != head_VH.shape[1]:
        raise BadInput(
            f"hidden_NH has shape {list(hidden_NH.shape)}, head_VH {list(head_VH.shape)}: "
            "both need two dimensions and the same hidden size"
        )
    for name, value in (("head_VH", head_VH), ("bias_V", bias_V)):
        if value is None:
            continue
        if value.device != hidden_NH.device:
            raise BadInput(f"{name} is on {value.device}, hidden_NH on {hidden_NH.device}")
        if value.dtype != hidden_NH.dtype:
            raise BadInput(f"{name} is {value.dtype}, hidden_NH is {hidden_NH.dtype}")
    if not hidden_NH.is_floating_point():
        raise BadInput(f"hidden_NH is {hidden_NH.dtype}, floating point is needed")
    if bias_V is not None and bias_V.shape != head_VH.shape[:1]:
        raise BadInput(f"bias_V has shape {list(bias_V.shape)}, head_VH {list(head_VH.shape)}")
    if not (math.isfinite(temperature) and temperature > 0):
        raise BadInput(f"temperature is {temperature}, it must be above 0")
    if softcap is not None and not (math.isfinite(softcap) and softcap > 0):
        raise BadInput(f"softcap is {softcap}, it must be above 0")
    size = len(head_VH) if vocabulary is None else vocabulary
    if not 0 < size <= len(head_VH):
        raise BadInput(f"vocabulary is {size}, head_VH has {len(head_VH)} rows")
    return size


def count(k: int, size: int) -> None:
    if not 0 < k <= size:
        raise BadInput(f"{k} likeliest tokens are requested, the vocabulary has {size}")


@torch.no_grad()
def values(hidden_NH: Tensor, target_N: Tensor, topk_NK: Tensor | None, size: int) -> None:
    """BadInput for numbers that have no statistics; waits for the device once."""
    if not len(hidden_NH):
        return
    least, most = target_N.aminmax()
    wrong = {"nan": hidden_NH.amax().isnan(), "target": (least < 0) | (most >= size)}
    if topk_NK is not None and topk_NK.shape[1]:
        ordered_NK = topk_NK.sort(-1).values
        equal_NK = (ordered_NK[:, 1:] == ordered_NK[:, :-1]) & (ordered_NK[:, 1:] >= 0)
        wrong["outside"] = ordered_NK[:, -1].amax() >= size
        wrong["repeated"] = equal_NK.any()
        wrong["sampled"] = (topk_NK == target_N[:, None]).any()
    for what, any_wrong in zip(wrong, torch.stack(list(wrong.values())).tolist(), strict=True):
        if any_wrong:
            row = int(_rows(what, hidden_NH, target_N, topk_NK, size).nonzero()[0])
            raise BadInput(_message(what, row, target_N, topk_NK, size))


def _rows(
    what: str, hidden_NH: Tensor, target_N: Tensor, topk_NK: Tensor | None, size: int
) -> Tensor:
    """The rows that are wrong in this way."""
    if what == "nan":
        return hidden_NH.isnan().any(-1)
    if what == "target":
        return (target_N < 0) | (target_N >= size)
    assert topk_NK is not None
    if what == "outside":
        return (topk_NK >= size).any(-1)
    if what == "sampled":
        return (topk_NK == target_N[:, None]).any(-1)
    ordered_NK = topk_NK.sort(-1).values
    return ((ordered_NK[:, 1:] == ordered_NK[:, :-1]) & (ordered_NK[:, 1:] >= 0)).any(-1)


def _message(what: str, row: int, target_N: Tensor, topk_NK: Tensor | None, size: int) -> str:
    if what == "nan":
        return f"hidden_NH holds NaN in row {row}"
    if what == "target":
        return f"target_N[{row}] is {int(target_N[row])}, the vocabulary has {size} tokens"
    assert topk_NK is not None
    ids = topk_NK[row].tolist()
    if what == "outside":
        return f"topk_NK[{row}] holds {max(ids)}, the vocabulary has {size} tokens"
    if what == "repeated":
        twice = next(i for i in ids if i >= 0 and ids.count(i) > 1)
        return f"topk_NK[{row}] holds {twice} more than once"
    return f"topk_NK[{row}] holds the target {int(target_N[row])}"

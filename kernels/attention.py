"""One new token of each row against the keys and values that its row has in a static cache.

Shapes: B rows, H query heads, K key heads, D head size, L positions of the cache, G = H / K.
"""

import torch
from torch import Tensor

from rlvr_cli.kernels.checks import BadInput

BLOCK = 64  # positions that are read together


@torch.no_grad()
def attend(
    query_BHD: Tensor,
    key_BKD: Tensor,
    value_BKD: Tensor,
    keys_BKLD: Tensor,
    values_BKLD: Tensor,
    position_B: Tensor,
    *,
    scale: float,
    window: int = 0,
    softcap: float = 0.0,
    by_rows: bool = False,
) -> Tensor:
    """The attention [B, H, D] of new tokens; their keys and values go to `position_B` of the cache.

        softmax(cap(scale q k^T)) v    over positions 0 to `position`, the new token's

    Over the last `window` positions only if it is above 0, capped if `softcap` is above 0. The
    cache is not read from `position` on. A running softmax over blocks of positions, so that a
    row's bits depend neither on the other rows nor on L. In float32 or wider. With `by_rows` a
    kernel may be cut by the number of rows, on which its last bits then depend.
    """
    check(query_BHD, key_BKD, value_BKD, keys_BKLD, values_BKLD, position_B)
    count, heads, size = query_BHD.shape
    key_heads = key_BKD.shape[1]
    row_B = torch.arange(count, device=query_BHD.device)
    keys_BKLD[row_B, :, position_B] = key_BKD
    values_BKLD[row_B, :, position_B] = value_BKD
    wide = torch.promote_types(query_BHD.dtype, torch.float32)
    query_BKGD = query_BHD.view(count, key_heads, heads // key_heads, size).to(wide)
    most_BKG = _scores(query_BKGD, key_BKD[:, :, None], scale, softcap)[..., 0]
    total_BKG = torch.ones_like(most_BKG)
    sum_BKGD = value_BKD[:, :, None].to(wide).expand_as(query_BKGD)
    for start in range(0, int(position_B.max()) if count else 0, BLOCK):
        cut = slice(start, start + BLOCK)
        column_P = torch.arange(keys_BKLD.shape[2], device=query_BHD.device)[cut]
        seen_BP = column_P < position_B[:, None]
        if window:
            seen_BP &= column_P > position_B[:, None] - window
        score_BKGP = _scores(query_BKGD, keys_BKLD[:, :, cut], scale, softcap)
        score_BKGP = score_BKGP.masked_fill(~seen_BP[:, None, None], -torch.inf)
        higher_BKG = torch.maximum(most_BKG, score_BKGP.amax(-1))
        shrink_BKG = (most_BKG - higher_BKG).exp()
        weight_BKGP = (score_BKGP - higher_BKG[..., None]).exp()
        total_BKG = total_BKG * shrink_BKG + weight_BKGP.sum(-1)
        part_BKGD = weight_BKGP @ values_BKLD[:, :, cut].to(wide)
        sum_BKGD = sum_BKGD * shrink_BKG[..., None] + part_BKGD
        most_BKG = higher_BKG
    return (sum_BKGD / total_BKG[..., None]).to(query_BHD.dtype).view(count, heads, size)


def _scores(query_BKGD: Tensor, keys_BKPD: Tensor, scale: float, softcap: float) -> Tensor:
    score_BKGP = query_BKGD @ keys_BKPD.to(query_BKGD.dtype).transpose(-1, -2) * scale
    return (score_BKGP / softcap).tanh() * softcap if softcap else score_BKGP


def check(
    query_BHD: Tensor,
    key_BKD: Tensor,
    value_BKD: Tensor,
    keys_BKLD: Tensor,
    values_BKLD: Tensor,
    position_B: Tensor,
) -> None:
    count, heads, size = query_BHD.shape
    key_heads, length = keys_BKLD.shape[1:3]
    shapes = {
        "key_BKD": (key_BKD, [count, key_heads, size]),
        "value_BKD": (value_BKD, [count, key_heads, size]),
        "keys_BKLD": (keys_BKLD, [count, key_heads, length, size]),
        "values_BKLD": (values_BKLD, [count, key_heads, length, size]),
        "position_B": (position_B, [count]),
    }
    for name, (value, shape) in shapes.items():
        if list(value.shape) != shape:
            raise BadInput(f"{name} has shape {list(value.shape)}, {shape} is needed")
    if heads % key_heads:
        raise BadInput(f"{heads} query heads are no multiple of {key_heads} key heads")
    if not (keys_BKLD.is_contiguous() and values_BKLD.is_contiguous()):
        raise BadInput("the cache is not contiguous")

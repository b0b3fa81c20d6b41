"""`attention.attend` to a cache of int8 codes, which is half of one in bfloat16.

Each position of a head has a scale for its key and one for its value. A shift that a row uses for
all positions is subtracted from keys: some channels of keys are far from 0 everywhere, and a
constant added to all scores of a query does not change a softmax.

Shapes: B rows, H query heads, K key heads, D head size, L positions of the cache, M = L / 2 pairs
of positions, whose values alternate; P prompts, S positions of the longest.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from rlvr_cli.kernels import attention
from rlvr_cli.kernels.checks import BadInput

MOST = 127  # the largest code
_OF_SHIFT = 8  # last positions of a prompt that the shift is the mean of


class CodedCache(NamedTuple):
    """A layer's: key = shift + scale[0] code, value = scale[1] code."""

    keys_BKLD: Tensor  # int8
    values_BKMD2: Tensor  # int8
    scales_BKL2: Tensor  # float32
    shift_BKD: Tensor

    @classmethod
    def empty(cls, rows: int, length: int, key_PKSD: Tensor, value_PKSD: Tensor) -> "CodedCache":
        """That of so many rows and at least so many positions."""
        heads, pairs, size = key_PKSD.shape[1], -(-length // 2), key_PKSD.shape[3]
        return cls(
            key_PKSD.new_zeros(rows, heads, 2 * pairs, size, dtype=torch.int8),
            value_PKSD.new_zeros(rows, heads, pairs, size, 2, dtype=torch.int8),
            key_PKSD.new_zeros(rows, heads, 2 * pairs, 2, dtype=torch.float32),
            key_PKSD.new_zeros(rows, heads, size),
        )

    def rows(self, rows: slice) -> "CodedCache":
        return CodedCache(*(value[rows] for value in self))

    def read(self, length: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The first keys and values, [B, K, length, D]."""
        values_BKLD = self.values_BKMD2.transpose(3, 4).flatten(2, 3)
        scales_BKL2 = self.scales_BKL2[:, :, :length].to(dtype)
        keys, values = (
            codes[:, :, :length].to(dtype) * scales_BKL2[..., i, None]
            for i, codes in enumerate((self.keys_BKLD, values_BKLD))
        )
        return keys + self.shift_BKD[:, :, None].to(dtype), values

    def put(
        self,
        key_PKSD: Tensor,
        value_PKSD: Tensor,
        length_P: Tensor,
        row_R: Tensor,
        source_R: Tensor,
    ) -> None:
        """Writes prompts to rows, from position 0."""
        count, heads, length, size = value_PKSD.shape
        shift_PKD = _shift(key_PKSD, length_P).to(self.shift_BKD.dtype)
        keys_PKSD, of_keys_PKS = quantize(key_PKSD.float() - shift_PKD[:, :, None].float())
        values_PKSD, of_values_PKS = quantize(value_PKSD)
        values_PKSD = torch.nn.functional.pad(values_PKSD, (0, 0, 0, length % 2))
        pairs_PKMD2 = values_PKSD.reshape(count, heads, -1, 2, size).transpose(3, 4)
        self.keys_BKLD[row_R, :, :length] = keys_PKSD[source_R]
        self.values_BKMD2[row_R, :, : pairs_PKMD2.shape[2]] = pairs_PKMD2[source_R]
        scales_PKS2 = torch.stack((of_keys_PKS, of_values_PKS), -1)
        self.scales_BKL2[row_R, :, :length] = scales_PKS2[source_R]
        self.shift_BKD[row_R] = shift_PKD[source_R]

    def clear(self, row_R: Tensor) -> None:
        """For rows without a prompt: of their positions nothing is read that they do not write."""
        self.shift_BKD[row_R] = 0

    def move(self, source_R: Tensor, row_R: Tensor, length: int) -> None:
        """Copies the first positions of source rows to other rows; the two sets are disjoint."""
        for cache, count in zip(self, (length, -(-length // 2), length, None), strict=True):
            cache[row_R, :, :count] = cache[source_R, :, :count]


def _shift(key_PKSD: Tensor, length_P: Tensor) -> Tensor:
    """The mean of the last keys of each prompt, [P, K, D]; of the first again where it is short.

    Summed in a fixed order, so that it depends only on the prompt.
    """
    prompt_P = torch.arange(len(length_P), device=length_P.device)
    first, *others = (
        key_PKSD[prompt_P, :, (length_P - i).clamp(min=0)].float() for i in range(1, 1 + _OF_SHIFT)
    )
    return sum(others, first) / _OF_SHIFT


@torch.no_grad()
def quantize(values_D: Tensor) -> tuple[Tensor, Tensor]:
    """Values of a head [..., D] as codes [..., D], and their scale [...].

    value = scale code, within half of the scale. What is not finite makes the scale so.
    """
    wide_D = values_D.float()
    most = wide_D.abs().amax(-1)
    ratio = MOST / torch.where(most == 0, 1.0, most)
    return (wide_D * ratio[..., None]).round().to(torch.int8), most / MOST


@torch.no_grad()
def attend(
    query_BHD: Tensor,
    key_BKD: Tensor,
    value_BKD: Tensor,
    cache: CodedCache,
    position_B: Tensor,
    *,
    scale: float,
    window: int = 0,
    softcap: float = 0.0,
) -> Tensor:
    """`attention.attend`; keys and values are coded, but a token reads its own as they are."""
    check(query_BHD, key_BKD, value_BKD, cache, position_B)
    wide = torch.promote_types(query_BHD.dtype, torch.float32)
    row_B = torch.arange(len(query_BHD), device=query_BHD.device)
    shift_BKD = cache.shift_BKD.to(wide)
    codes_BKD, cache.scales_BKL2[row_B, :, position_B, 0] = quantize(key_BKD.to(wide) - shift_BKD)
    cache.keys_BKLD[row_B, :, position_B] = codes_BKD
    codes_BKD, cache.scales_BKL2[row_B, :, position_B, 1] = quantize(value_BKD)
    cache.values_BKMD2[row_B, :, position_B // 2, :, position_B % 2] = codes_BKD
    length = cache.keys_BKLD.shape[2]
    if len(position_B) and not position_B.is_cuda:  # where the host need not wait
        last = int(position_B.max())
        length = (last // attention.BLOCK + 1) * attention.BLOCK  # in full blocks: a row's bits
    keys_BKLD, values_BKLD = cache.read(length, wide)
    attended_BHD = attention.attend(
        query_BHD.to(wide), key_BKD.to(wide), value_BKD.to(wide), keys_BKLD, values_BKLD,
        position_B, scale=scale, window=window, softcap=softcap,
    )  # fmt: skip
    return attended_BHD.to(query_BHD.dtype)


def check(
    query_BHD: Tensor, key_BKD: Tensor, value_BKD: Tensor, cache: CodedCache, position_B: Tensor
) -> None:
    count, _, size = query_BHD.shape
    key_heads, length = cache.keys_BKLD.shape[1:3]
    after = ((length, size), (length // 2, size, 2), (length, 2), (size,))
    for (name, value), end in zip(cache._asdict().items(), after, strict=True):
        if list(value.shape) != (shape := [count, key_heads, *end]):
            raise BadInput(f"{name} has shape {list(value.shape)}, {shape} is needed")
        if not value.is_contiguous():
            raise BadInput(f"{name} is not contiguous")
    if length % 2 or {cache.keys_BKLD.dtype, cache.values_BKMD2.dtype} != {torch.int8}:
        raise BadInput("the cache is not of int8, or its positions are no pairs")
    keys_BKLD = cache.keys_BKLD
    attention.check(query_BHD, key_BKD, value_BKD, keys_BKLD, keys_BKLD, position_B)

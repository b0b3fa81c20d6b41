"""The keys and values of one layer in the model's dtype; kernels/coded.py has those in int8.

Shapes: B rows that are decoded, R rows that get a prompt, P distinct prompts among them, S tokens
of the longest, K key heads, D head size, L positions of the cache.
"""

from typing import NamedTuple

from torch import Tensor


class PlainCache(NamedTuple):
    """Keys and values as they are computed."""

    keys_BKLD: Tensor
    values_BKLD: Tensor

    @classmethod
    def empty(cls, rows: int, length: int, key_PKSD: Tensor, value_PKSD: Tensor) -> "PlainCache":
        both = (key_PKSD, value_PKSD)
        return cls(*(new.new_zeros(rows, new.shape[1], length, new.shape[3]) for new in both))

    def rows(self, rows: slice) -> "PlainCache":
        return PlainCache(*(cache[rows] for cache in self))

    def put(
        self,
        key_PKSD: Tensor,
        value_PKSD: Tensor,
        length_P: Tensor,
        row_R: Tensor,
        source_R: Tensor,
    ) -> None:
        """Writes prompts to rows, from position 0."""
        for cache_BKLD, new_PKSD in zip(self, (key_PKSD, value_PKSD), strict=True):
            cache_BKLD[row_R, :, : new_PKSD.shape[2]] = new_PKSD[source_R]

    def clear(self, row_R: Tensor) -> None:
        """For rows without a prompt: nothing is read that they have not written."""

    def move(self, source_R: Tensor, row_R: Tensor, length: int) -> None:
        """Copies the first positions of source rows to other rows; the two sets are disjoint."""
        for cache_BKLD in self:
            cache_BKLD[row_R, :, :length] = cache_BKLD[source_R, :, :length]

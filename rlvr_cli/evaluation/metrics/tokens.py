r"""Words and symbols of texts, split and counted with numpy.

The tokens of a text are the matches of `\w+|[^\w\s]` in its lower case: words, and every other
symbol by itself, as a completion may be `3*8`. Shapes: C characters of all texts, A those that are
not ASCII, N tokens, E pairs of a text and a term in it, D texts, V terms.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlvr_cli.evaluation.metrics.characters import SYMBOL, WORD, Characters, lowered

_ODD, _MIX = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93  # odd, so that they have inverses
_EIGHT = 8  # characters that are hashed at once
_MASKS = np.array([2 ** (8 * size) - 1 for size in range(_EIGHT + 1)], dtype=np.uint64)


@dataclass(frozen=True)
class Tokens:
    """The terms of texts, text after text, as numbers from 0; equal tokens have equal numbers."""

    term_N: np.ndarray
    text_N: np.ndarray
    texts: int
    terms: int

    def lengths(self) -> np.ndarray:
        """The number of tokens of each text, [D]."""
        return np.bincount(self.text_N, minlength=self.texts)

    def counts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Text, term and how often the one has the other, each [E], term after term."""
        kind = np.int32 if self.texts * self.terms < 2**31 else np.int64
        pair_N = np.multiply(self.term_N, self.texts, dtype=kind) + self.text_N
        pair_N.sort()
        new_N = np.ones(len(pair_N), dtype=bool)
        np.not_equal(pair_N[1:], pair_N[:-1], out=new_N[1:])
        first_E = np.flatnonzero(new_N)
        pair_E = pair_N.take(first_E)
        term_E = pair_E // max(self.texts, 1)  # and not divmod, which takes several times longer
        text_E = pair_E - term_E * self.texts
        return text_E.astype(np.intp), term_E.astype(np.intp), np.diff(first_E, append=len(pair_N))

    def of_text(self) -> list[np.ndarray]:
        """The terms of each text in order."""
        return np.split(self.term_N, np.cumsum(self.lengths())[:-1]) if self.texts else []


def tokenize(texts: Sequence[str]) -> Tokens:
    """The tokens of each text.

    A token's number comes from a 64-bit hash of its characters, so two of 10,000 different tokens
    meet once in 10^11 calls; two of up to eight ASCII characters never do.
    """
    characters = lowered(texts)
    start_N, end_N = _bounds(characters.kind_C)
    hash_N = _hashes(characters.byte_C, start_N, end_N - start_N)
    _add_others(hash_N, characters, start_N)
    term_N, terms = _numbered(hash_N)
    tokens_D = np.diff(np.searchsorted(start_N, characters.end_D), prepend=0)
    text_N = np.repeat(np.arange(len(texts), dtype=np.int32), tokens_D)
    return Tokens(term_N, text_N, len(texts), terms)


def _bounds(kind_C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each token starts and ends, [N]; the last character is followed by space."""
    before_C = np.zeros_like(kind_C)
    before_C[1:] = kind_C[:-1]
    word_C, was_word_C = kind_C == WORD, before_C == WORD
    start_N = np.flatnonzero((word_C & ~was_word_C) | (kind_C == SYMBOL))
    end_N = np.flatnonzero((was_word_C & ~word_C) | (before_C == SYMBOL))
    return start_N, end_N


def _numbered(hash_N: np.ndarray) -> tuple[np.ndarray, int]:
    """Numbers from 0 for hashes, equal for equal ones, and how many there are.

    By a table of the upper bits; the few whose slot another one took are sorted.
    """
    slot_N = (hash_N >> np.uint64(48)).view(np.int64)
    table = np.zeros(2**16, dtype=np.uint64)
    table[slot_N] = hash_N
    taken = table != 0
    taken[0] |= not hash_N.all()
    number = np.cumsum(taken, dtype=np.int32)
    term_N, terms = number.take(slot_N) - 1, int(number[-1])
    other_N = np.flatnonzero(table.take(slot_N) != hash_N)
    if len(other_N):
        others, where = np.unique(hash_N[other_N], return_inverse=True)
        term_N[other_N] = terms + where
        terms += len(others)
    return term_N, terms


def _hashes(byte_C: np.ndarray, start_N: np.ndarray, size_N: np.ndarray) -> np.ndarray:
    """A 64-bit hash of each token, eight bytes at a time: h = mix(h ^ bytes), mix a bijection.

    No token contains a zero byte, so shorter ones are padded with zeros.
    """
    # The eight bytes from each one on, as one number.
    eight_C = np.ndarray(len(byte_C) - _EIGHT + 1, "<u8", byte_C, strides=(1,)).copy()
    bytes_N = eight_C.take(start_N)
    bytes_N &= _MASKS.take(size_N, mode="clip")
    hash_N = _mixed(bytes_N)
    offset, long = _EIGHT, np.flatnonzero(size_N > _EIGHT)
    while len(long):
        size = size_N.take(long)
        chunk = eight_C.take(start_N.take(long) + offset)
        chunk &= _MASKS.take(size - offset, mode="clip")
        hash_N[long] = _mixed(chunk ^ hash_N.take(long))
        offset += _EIGHT
        long = long.take(np.flatnonzero(size > offset))
    return hash_N


def _add_others(hash_N: np.ndarray, characters: Characters, start_N: np.ndarray) -> None:
    """Adds to the hash of each token what its characters are that are not ASCII, and where."""
    if not len(characters.other_A):
        return
    token_A = np.searchsorted(start_N, characters.other_A, side="right") - 1
    place_A = (characters.other_A - start_N.take(token_A)).astype(np.uint64)
    other_A = _mixed(_mixed(place_A << np.uint64(32) | characters.point_A))
    first = np.flatnonzero(np.diff(token_A, prepend=-1))
    tokens = token_A.take(first)
    hash_N[tokens] = _mixed(hash_N.take(tokens) ^ np.bitwise_xor.reduceat(other_A, first))


def _mixed(value: np.ndarray) -> np.ndarray:
    value *= np.uint64(_ODD)
    value ^= value >> np.uint64(32)
    value *= np.uint64(_MIX)
    return value

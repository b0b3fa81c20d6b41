r"""Words and symbols of texts, split and counted with numpy.

The tokens of a text are the matches of `\w+|[^\w\s]` in its lower case: words, and every other
symbol by itself, as a completion may be `3*8`. Shapes: C code units of all texts, N tokens, E
pairs of a text and a term in it, D texts, V terms.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlvr_cli.metrics.characters import REST, SYMBOL, WORD, lowered

_ODD, _MIX = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93  # odd, so that they have inverses
_MASKS = np.array([2 ** (8 * size) - 1 for size in range(9)], dtype=np.uint64)
_SHORT = 8  # characters of a token that are looked at whether it has them or not


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
    meet once in 10^11 calls; two that fit in eight bytes never do.
    """
    code_C, class_C, end_D = lowered(texts)
    start_N, end_N = _bounds(class_C)
    term_N, terms = _numbered(_hashes(code_C, start_N, end_N - start_N))
    tokens_D = np.diff(np.searchsorted(start_N, end_D), prepend=0)
    text_N = np.repeat(np.arange(len(texts), dtype=np.int32), tokens_D)
    return Tokens(term_N, text_N, len(texts), terms)


def _bounds(class_C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each token starts and ends, [N]; behind the last of all there is space."""
    before_C = np.zeros_like(class_C)
    before_C[1:] = class_C[:-1]
    word_C, was_word_C = class_C == WORD, before_C == WORD
    start_N = np.flatnonzero((word_C & ~was_word_C) | (class_C == SYMBOL))
    end_N = np.flatnonzero((was_word_C & ~word_C) | ((before_C >= SYMBOL) & (class_C != REST)))
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


def _hashes(code_C: np.ndarray, start_N: np.ndarray, size_N: np.ndarray) -> np.ndarray:
    """A 64-bit hash of each token, eight bytes at a time: h = mix(h ^ bytes), mix a bijection.

    No token holds a zero beside others, so shorter ones are filled up with zeros.
    """
    width, each = code_C.itemsize, 8 // code_C.itemsize
    masks = _MASKS[::width]
    # The eight bytes from each unit on, as one number.
    eight_C = np.ndarray(len(code_C) - each + 1, "<u8", code_C, strides=(width,)).copy()
    hash_N = np.zeros(len(start_N), dtype=np.uint64)
    for offset in range(0, _SHORT, each):
        found_N = eight_C.take(start_N + offset, mode="clip")
        found_N &= masks.take(size_N - offset, mode="clip")
        hash_N = _mixed(found_N ^ hash_N)
    offset, long = _SHORT, np.flatnonzero(size_N > _SHORT)
    while len(long):
        size = size_N.take(long)
        found = eight_C.take(start_N.take(long) + offset)
        found &= masks.take(size - offset, mode="clip")
        hash_N[long] = _mixed(found ^ hash_N.take(long))
        offset += each
        long = long.take(np.flatnonzero(size > offset))
    return hash_N


def _mixed(value: np.ndarray) -> np.ndarray:
    value *= np.uint64(_ODD)
    value ^= value >> np.uint64(32)
    value *= np.uint64(_MIX)
    return value

r"""Words and symbols of texts, split and counted with numpy.

The tokens of a text are the matches of `\w+|[^\w\s]` in its lower case: words, and every other
symbol by itself, as a completion may be `3*8`. Shapes: C characters of all texts, N tokens, E
pairs of a text and a term in it, D texts, V terms.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_ODD = 0x9E3779B97F4A7C15  # the base of the hash; odd, so that it has an inverse modulo 2^64
_MIX = 0xD6E8FEB86659FD93  # brings what differs into the upper bits
_WRAP = 2**64
_SPACE, _WORD, _SYMBOL = 0, 1, 2
DENSE = 4  # cells for each token, up to which counting is faster than sorting


@dataclass(frozen=True)
class Tokens:
    """The terms of texts, text after text, as numbers; equal tokens have equal numbers."""

    term_N: np.ndarray
    text_N: np.ndarray
    texts: int
    terms: int

    def lengths(self) -> np.ndarray:
        """The number of tokens of each text, [D]."""
        return np.bincount(self.text_N, minlength=self.texts)

    def counts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Text, term and how often the one has the other, each [E], in that order."""
        pair_N = self.text_N * self.terms + self.term_N
        if self.texts * self.terms > DENSE * len(pair_N):
            pair_E, count_E = np.unique(pair_N, return_counts=True)
        else:
            count_P = np.bincount(pair_N)
            pair_E = np.flatnonzero(count_P)
            count_E = count_P[pair_E]
        text_E, term_E = np.divmod(pair_E, max(self.terms, 1))
        return text_E, term_E, count_E

    def of_text(self) -> list[np.ndarray]:
        """The terms of each text in order."""
        return np.split(self.term_N, np.cumsum(self.lengths())[:-1]) if self.texts else []


def tokenize(texts: Sequence[str]) -> Tokens:
    """The tokens of each text.

    A token's number comes from a 64-bit hash of its characters, so two of 10,000 different tokens
    meet once in 10^11 calls.
    """
    is_ascii = all(map(str.isascii, texts))  # lowered as one, which keeps all lengths
    lowered = texts if is_ascii else [text.lower() for text in texts]
    code_C, class_C = _classified("\n".join([*lowered, ""]))
    is_word_C = class_C == _WORD
    before_C = np.concatenate([[False], is_word_C[:-1]])
    start_N = np.flatnonzero((is_word_C & ~before_C) | (class_C == _SYMBOL))
    end_N = start_N + 1
    end_N[is_word_C[start_N]] = np.flatnonzero(before_C & ~is_word_C)
    term_N, terms = _numbered(_hashes(code_C, start_N, end_N))
    ends_D = np.cumsum([len(text) + 1 for text in lowered], dtype=np.int64)
    tokens_D = np.diff(np.searchsorted(start_N, ends_D), prepend=0)
    return Tokens(term_N, np.repeat(np.arange(len(texts)), tokens_D), len(texts), terms)


def _classified(text: str) -> tuple[np.ndarray, np.ndarray]:
    """The code points of a text and what each is: in a word, a symbol, or space."""
    if text.isascii():
        data = text.encode().lower()
        return np.frombuffer(data, np.uint8), np.frombuffer(data.translate(_ascii()), np.uint8)
    code_C = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    return code_C, _classes(0x110000)[code_C]


@functools.cache
def _ascii() -> bytes:
    return _classes(256).tobytes()


@functools.cache
def _classes(points: int) -> np.ndarray:
    word = [chr(i).isalnum() or i == ord("_") for i in range(points)]
    space = [chr(i).isspace() for i in range(points)]
    return np.where(word, _WORD, np.where(space, _SPACE, _SYMBOL)).astype(np.uint8)


def _numbered(hash_N: np.ndarray) -> tuple[np.ndarray, int]:
    """Numbers from 0 for hashes, equal for equal ones, and how many there are.

    By a table of the upper bits; the few whose slot another one took are sorted.
    """
    slot_N = (hash_N >> np.uint64(48)).astype(np.int64)
    table = np.zeros(2**16, dtype=np.uint64)
    table[slot_N] = hash_N
    taken = np.zeros(2**16, dtype=bool)
    taken[slot_N] = True
    number = np.cumsum(taken) - 1
    term_N, terms = number[slot_N], int(taken.sum())
    other_N = np.flatnonzero(table[slot_N] != hash_N)
    if len(other_N):
        others, where = np.unique(hash_N[other_N], return_inverse=True)
        term_N[other_N] = terms + where
        terms += len(others)
    return term_N, terms


def _hashes(code_C: np.ndarray, start_N: np.ndarray, end_N: np.ndarray) -> np.ndarray:
    """sum_j (code_j + 1) b^j modulo 2^64 over each token's characters, j from its start."""
    power_C, inverse_C = _powers(1 << len(code_C).bit_length())
    sums_C = np.zeros(len(code_C) + 1, dtype=np.uint64)
    np.cumsum((code_C + np.uint64(1)) * power_C[: len(code_C)], out=sums_C[1:])
    return (sums_C[end_N] - sums_C[start_N]) * inverse_C[start_N] * np.uint64(_MIX)


@functools.lru_cache(maxsize=2)
def _powers(size: int) -> tuple[np.ndarray, np.ndarray]:
    """The powers of the base and of its inverse, modulo 2^64."""
    made = []
    for base in (_ODD, pow(_ODD, -1, _WRAP)):
        factors = np.full(size, base, dtype=np.uint64)
        factors[0] = 1
        made.append(np.cumprod(factors, dtype=np.uint64))
    return made[0], made[1]

r"""The characters of texts in lower case, and what each is: in a word, a symbol, or space.

Shapes: C characters of all texts, D texts, A characters that are not ASCII.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SPACE, WORD, SYMBOL = range(3)
OTHER = 0xFF  # in the place of what is not ASCII
_PADDING = "\0" * 8
_BMP = 2**16
# The lower case of all other characters has as many characters, and is the same everywhere.
SIGMA, DOTTED = "Σ", "İ"  # ς at the end of a word; two characters


@dataclass(frozen=True)
class Characters:
    """The characters of all texts, with a line feed after each text.

    `byte_C` is their ASCII, OTHER where they are not, and eight zeros at the end; `kind_C` is what
    they are. `other_A` are the places of those that are not ASCII, and not space, `point_A` their
    code points. `end_D` is where each text ends, line feed included.
    """

    byte_C: np.ndarray
    kind_C: np.ndarray
    other_A: np.ndarray
    point_A: np.ndarray
    end_D: np.ndarray


def lowered(texts: Sequence[str]) -> Characters:
    """What `Characters` has of texts; half a surrogate pair is a symbol, and two halves that meet
    are the character that they represent."""
    if all(map(str.isascii, texts)):
        nothing = np.zeros(0, dtype=np.int64)
        return Characters(*_ascii(_joined(texts).encode()), nothing, nothing, _ends(texts))
    texts = [text.lower() if SIGMA in text or DOTTED in text else text for text in texts]
    points = np.frombuffer(_joined(texts).encode("utf-32-le", "surrogatepass"), "<u4")
    other_A = np.flatnonzero(points > 127)
    point_A = points.take(other_A)
    if np.any((point_A >= 0xD800) & (point_A < 0xE000)) and texts != (met := _met(texts)):
        return lowered(met)
    byte_C, kind_C = _ascii(bytearray(points.astype(np.uint8)))
    point_A, kind_A = _lower_and_kind(point_A)
    byte_C[other_A] = np.where(point_A < 128, point_A, OTHER)  # the Kelvin sign's is k
    kind_C[other_A] = kind_A
    token_A = (point_A > 127) & (kind_A != SPACE)
    return Characters(byte_C, kind_C, other_A[token_A], point_A[token_A], _ends(texts))


def _joined(texts: Sequence[str]) -> str:
    return "\n".join([*texts, _PADDING])


def _met(texts: Sequence[str]) -> list[str]:
    """The texts with each two halves that meet as one character."""
    halves = (text.encode("utf-16-le", "surrogatepass") for text in texts)
    return [data.decode("utf-16-le", "surrogatepass") for data in halves]


def _ends(texts: Sequence[str]) -> np.ndarray:
    return np.cumsum(np.array(list(map(len, texts)), dtype=np.int64) + 1)


def _ascii(data: bytes | bytearray) -> tuple[np.ndarray, np.ndarray]:
    """Bytes in lower case, and what each but the padding is."""
    lower = bytearray(data).lower()
    kinds = np.frombuffer(lower.translate(_ascii_kinds()), np.uint8)
    return np.frombuffer(lower, np.uint8), kinds[: -len(_PADDING)]


def _kind(character: str) -> int:
    r"""As `\w` and `\s` of the standard library's `re` have it."""
    if character.isalnum() or character == "_":
        return WORD
    return SPACE if character.isspace() else SYMBOL


@functools.cache
def _ascii_kinds() -> bytes:
    return bytes(_kind(chr(i)) for i in range(256))


@functools.cache
def _plane() -> tuple[np.ndarray, np.ndarray]:
    """The lower case and the kind of each character of the basic plane."""
    characters = list(map(chr, range(_BMP)))
    lower = [ord(c if c in (SIGMA, DOTTED) else c.lower()) for c in characters]
    return np.array(lower, dtype="<u4"), np.array(list(map(_kind, characters)), dtype=np.uint8)


def _lower_and_kind(point_A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lower case of code points, and what each is."""
    lower, kind = _plane()
    lower_A, kind_A = (table.take(point_A, mode="clip") for table in (lower, kind))
    high_A = np.flatnonzero(point_A >= _BMP)
    points, where = np.unique(point_A[high_A], return_inverse=True)
    characters = list(map(chr, points.tolist()))
    lower_A[high_A] = np.array([ord(c.lower()) for c in characters], dtype="<u4")[where]
    kind_A[high_A] = np.array(list(map(_kind, characters)), dtype=np.uint8)[where]
    return lower_A, kind_A

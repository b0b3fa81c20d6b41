r"""The characters of texts in lower case, and what each is: in a word, a symbol, or space.

Shapes: C code units of all texts (bytes of ASCII, else UTF-16), D texts, A characters of two units.
"""

import functools
from collections.abc import Sequence

import numpy as np

SPACE, WORD, SYMBOL, REST = range(4)  # REST: the second unit of a symbol
_HALF = 4  # the first unit of a character of two, and each half that is alone
_PADDING = bytes(8)
# The lower case of all other characters has as many units, and is the same everywhere.
SIGMA, DOTTED = "Σ", "İ"  # ς at the end of a word; two characters


def lowered(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The code units of all texts, with a line feed behind each and eight zero bytes behind all;
    what each unit is, [C]; and where each text ends, line feed included, [D].

    Half a surrogate pair is a symbol; two halves that meet are the character that they stand for.
    """
    if all(map(str.isascii, texts)):
        data = _joined([text.encode() for text in texts], b"\n").lower()
        sizes = list(map(len, texts))
        kinds = np.frombuffer(data.translate(_ascii()), np.uint8)
        return np.frombuffer(data, np.uint8), kinds[: -len(_PADDING)], _ends(sizes)
    plain = [text.lower() if SIGMA in text or DOTTED in text else text for text in texts]
    parts = [text.encode("utf-16-le", "surrogatepass") for text in plain]
    code_C = np.frombuffer(_joined(parts, b"\n\0"), np.dtype("<u2"))
    lower, kind = _units()
    index_C = code_C.astype(np.intp)
    class_C = kind.take(index_C)[: -len(_PADDING) // 2]
    code_C = lower.take(index_C)
    if np.any(half_C := class_C == _HALF):
        _join_halves(code_C, class_C, np.flatnonzero(half_C))
    return code_C, class_C, _ends([len(part) // 2 for part in parts])


def _joined(parts: list[bytes], between: bytes) -> bytes:
    return between.join([*parts, _PADDING])


def _ends(sizes: list[int]) -> np.ndarray:
    return np.cumsum(np.array(sizes, dtype=np.int64) + 1)


def _class(character: str) -> int:
    r"""As `\w` and `\s` of the standard library's `re` have it."""
    if character.isalnum() or character == "_":
        return WORD
    return SPACE if character.isspace() else SYMBOL


@functools.cache
def _ascii() -> bytes:
    return bytes(_class(chr(i)) for i in range(256))


@functools.cache
def _units() -> tuple[np.ndarray, np.ndarray]:
    """The lower case and the class of each UTF-16 code unit."""
    characters = list(map(chr, range(2**16)))
    lower = [c if c in (SIGMA, DOTTED) else c.lower() for c in characters]
    kind = np.array(list(map(_class, characters)), dtype=np.uint8)
    kind[0xD800:0xE000] = _HALF
    return np.array(list(map(ord, lower)), dtype="<u2"), kind


def _join_halves(code_C: np.ndarray, class_C: np.ndarray, half_A: np.ndarray) -> None:
    """Gives surrogate pairs their class and lower case, and makes single halves symbols."""
    class_C[half_A] = SYMBOL
    high_A, low_A = code_C[half_A].astype(np.int32), code_C[half_A + 1].astype(np.int32)
    pair_A = (high_A < 0xDC00) & (low_A >= 0xDC00) & (low_A < 0xE000)
    at_A = half_A[pair_A]
    point_A = 0x10000 + ((high_A[pair_A] - 0xD800) << 10) + (low_A[pair_A] - 0xDC00)
    points, where_A = np.unique(point_A, return_inverse=True)
    characters = list(map(chr, points.tolist()))
    word_A = np.array([_class(c) == WORD for c in characters], dtype=bool)[where_A]
    lower = np.array([ord(c.lower()) - 0x10000 for c in characters], dtype=np.int64)[where_A]
    class_C[at_A], class_C[at_A + 1] = np.where(word_A, [[WORD], [WORD]], [[SYMBOL], [REST]])
    code_C[at_A], code_C[at_A + 1] = 0xD800 + (lower >> 10), 0xDC00 + (lower & 0x3FF)

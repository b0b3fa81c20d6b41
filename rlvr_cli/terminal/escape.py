"""Text of models and files, made safe to show on a page and on a terminal."""

import os
import re
import shlex
from collections.abc import Sequence

_MARKS = (
    *(0x061C, 0x200B, 0x200E, 0x200F, 0x2028, 0x2029, 0x2060, 0xFEFF),
    *range(0x202A, 0x202F),  # these and the next change the direction of the text that follows
    *range(0x2066, 0x206A),
    *range(0xE0000, 0xE0080),  # tags: invisible text
)
_TABLE = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"}
_TABLE |= {127: 0x2421}
_SHOWN: dict[int, int | str] = {
    **_TABLE,
    **{code: f"⟨U+{code:04X}⟩" for code in (*range(0x80, 0xA0), *_MARKS)},
    **{code: f"⟨U+{code:04X}⟩" for code in range(0xD800, 0xE000)},  # half a pair, a byte of a path
}

_PASSWORD = re.compile(r"(?<=://)[^/\s`'\"]*:[^/\s`'\"]*@|(?<=https://)[^/\s@`'\"]+@")
_SIGNATURE = re.compile(
    r"([?&][^=&\s]*(?:sig|token|key|secret|credential)[^=&\s]*=)[^&\s`'\"]+", re.IGNORECASE
)


def redacted(text: str) -> str:
    """The text without the user, the password and the signatures that its URLs hold."""
    return _SIGNATURE.sub(r"\1***", _PASSWORD.sub("***@", text))


def shown(text: str) -> str:
    """The text with control and invisible characters made visible.

    Control characters become their pictures (an escape is ␛), those that change the direction
    of text or have no width become their code, as in ⟨U+202E⟩, and so do lone surrogates, which
    no encoding has. Line feeds and tabs stay.
    """
    return text if text.isascii() and text.isprintable() else text.translate(_SHOWN)


def line(text: str) -> str:
    """The text with control characters made visible, line feeds too."""
    return shown(text).replace("\n", "␊")


def command(words: Sequence[str]) -> str:
    """A command line that a shell reads as these words, and that is safe to show.

    A word with what a terminal should not get is quoted as bash, zsh and ksh do: `$'\\x1b[31m'`.
    """
    words = [redacted(word) for word in words]
    return " ".join(shlex.quote(w) if line(w) == w else _ansi_quoted(w) for w in words)


def _ansi_quoted(word: str) -> str:
    data = os.fsencode(word)
    kept = (chr(b) if 32 <= b < 127 and b not in b"'\\" else f"\\x{b:02x}" for b in data)
    return f"$'{''.join(kept)}'"


def clipped(text: str, most: int) -> tuple[str, int]:
    """The first `most` characters of a text, and how many were left out."""
    return text[:most], max(0, len(text) - most)


def brief(value: object, most: int = 100) -> str:
    """A value in one line; of a long text its beginning."""
    text = line(str(value))
    return text if len(text) <= most else f"{text[:most]}..."

"""Text of models and files, made safe to show on a page and on a terminal."""

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
}


def shown(text: str) -> str:
    """The text with control and invisible characters made visible.

    Control characters become their pictures (an escape is ␛), those that change the direction
    of text or have no width become their code, as in ⟨U+202E⟩. Line feeds and tabs stay.
    """
    return text.translate(_SHOWN)


def clipped(text: str, most: int) -> tuple[str, int]:
    """The first `most` characters of a text, and how many were left out."""
    return text[:most], max(0, len(text) - most)


def brief(value: object, most: int = 100) -> str:
    """A value in one line; of a long text its beginning."""
    text = shown(str(value)).replace("\n", "␊")
    return text if len(text) <= most else f"{text[:most]}..."

"""The fenced blocks of a text, as models write them: indented, in a list, unclosed, on one line."""

import ast
import re
import warnings
from dataclasses import dataclass

_OPENING = re.compile(r"^([ \t]*(?:(?:[-*+]|\d+[.)])[ \t]+)?)(`{3,}|~{3,})[ \t]*([^`\n]*?)[ \t]*$")
_ON_ONE_LINE = re.compile(r"^[ \t]*```(?:([\w+#-]+)[ \t]+)?([^`\n]+)```[ \t]*$", re.MULTILINE)
_TRIES = 10  # fences within one string
_LANGUAGE = re.compile(r"[\w+#-]+")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language in lower case, empty where none is named, and its text."""

    language: str
    text: str
    is_closed: bool = True


def blocks(text: str) -> list[Block]:
    """The blocks of a text, in order.

    A fence that opens where a block is open closes it. One that would close a block within a
    string of triple quotes is a part of it, if the block ends after the string.
    """
    if "```" not in text and "~~~" not in text:
        return []
    lines = text.split("\n")
    fenced: list[Block] = []
    start = 0
    while start < len(lines):
        opened = _OPENING.match(lines[start])
        if not opened:
            one = _ON_ONE_LINE.match(lines[start])
            if one:
                fenced.append(Block((one[1] or "").lower(), one[2]))
            start += 1
            continue
        end, is_closed = _end(lines, start + 1, opened[2])
        content = _unindented(lines[start + 1 : end], len(opened[1].expandtabs()))
        fenced.append(Block(_language(opened[3]), content, is_closed))
        start = end + is_closed
    return fenced


def _end(lines: list[str], start: int, fence: str) -> tuple[int, bool]:
    """The line that ends a block, and whether it is the block's own closing fence."""
    closing = re.compile(rf"^[ \t]*{re.escape(fence[0])}{{{len(fence)},}}[ \t]*$")
    first = None
    tries = 0
    for number in range(start, len(lines)):
        opened = _OPENING.match(lines[number])
        is_another = bool(opened and opened[3] and opened[2][0] == fence[0] and first is None)
        is_closing = closing.match(lines[number]) is not None
        if not is_closing and not is_another:
            continue
        tries += 1
        if tries > _TRIES or not _ends_in_string("\n".join(lines[start:number])):
            return number, is_closing
        first = number if first is None and is_closing else first
    return (len(lines), False) if first is None else (first, True)


def _ends_in_string(text: str) -> bool:
    """Whether Python is within triple quotes at the end of a text."""
    if text.count('"""') % 2 == 0 and text.count("'''") % 2 == 0:
        return False
    try:
        parsed(text)
    except SyntaxError as error:
        return "unterminated triple-quoted" in str(error.msg)
    return False


def parsed(text: str) -> ast.Module:
    """The tree of a Python text; a SyntaxError for whatever is wrong with it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (ValueError, MemoryError, RecursionError) as error:
        raise SyntaxError(str(error)) from error


def _unindented(lines: list[str], indent: int) -> str:
    """The lines without the indentation of their fence."""
    if indent:
        kept = [line.expandtabs() if line[:indent].isspace() else line for line in lines]
        lines = [line[indent:] if line[:indent].isspace() else line for line in kept]
    return "\n".join([*lines, ""]) if lines else ""


def _language(info: str) -> str:
    word = _LANGUAGE.search(info)
    return word[0].lower() if word else ""

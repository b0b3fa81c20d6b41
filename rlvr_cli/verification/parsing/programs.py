"""The Python program of a completion: which of its blocks, or which part of a text without any.

`read` returns Python, or what was meant as Python. If several blocks may be the program or parts
of it, `BETWEEN` separates them until `chosen` gets the requested function.
"""

import itertools
import re
from collections.abc import Iterable

from rlvr_cli.verification.parsing import fences, python_names
from rlvr_cli.verification.parsing.fences import Block
from rlvr_cli.verification.parsing.python_names import Names

BETWEEN = "\n\f\n"  # white space for Python
_MOST = 100_000  # characters of a program
_BLOCKS = 30  # the last blocks that are looked at
_TRIES = 20  # places where code may end and prose begin
_PYTHON = {"python", "py", "python3", "py3", "ipython", "ipython3"}
_TAGS = (
    re.compile(r"<(answer|code|python)>(?P<text>.*?)(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE),
    re.compile(r"\[PYTHON\](?P<text>.*?)(?:\[/PYTHON\]|\Z)", re.DOTALL),
    re.compile(r"\A(?:.*?\[BEGIN\])?(?P<text>.*?)\[DONE\]", re.DOTALL),
)
_CODE = re.compile(
    r"(?:def|class|async def) \w+.*:|@\w+|import \w|from [\w.]+ import |"
    r"(?:if|elif|for|while|with) .*:|(?:else|try|finally):|return\b|print\(|"
    r"\w[\w.\[\], ]*\s*[-+*/%]?=[^=]|[\w.]+\(.*\)\s*$|assert "
)
_BEGINS = re.compile(r"(?:(?:def|class|async def) \w|@\w|import \w|from [\w.]+ import )")
_DEFINES = re.compile(r"^(?:def|class|async def) ", re.MULTILINE)
_SENTENCE = re.compile(r"(?:[-*#>]+ |\d+[.)] )?\**[A-Z`][^=]*\s[^=]*$")
_FUTURE = re.compile(r"^from __future__ import .*\n?", re.MULTILINE)


def read(completion: str, is_finished: bool = True) -> str | None:
    """The program, or the blocks that may be it; None where there is no code.

    A text without a fence that continues a prompt's code is the program as it is.
    """
    fenced = fences.blocks(completion)
    if fenced and (head := _continued(completion)):
        return _bounded([head])
    if not fenced:
        return _bounded([text]) if (text := _unfenced(completion)) else None
    parts = _parts(fenced)
    if not parts and (text := _unfenced(_outside(completion, fenced))):
        parts = [text]
    return _bounded(parts)


def chosen(text: str, wanted: Iterable[str], *, is_script: bool) -> str:
    """The program of what `read` returned: the blocks that define `wanted`, or the script.

    The last block counts, with those that it builds on. One that only calls what a complete program
    defines is left out.
    """
    parts = text.split(BETWEEN)
    known = [python_names.of(part) for part in parts]
    if len(parts) == 1 or known[-1] is None:
        return parts[-1]
    clear = [one or python_names.UNKNOWN for one in known]
    picked = _script(clear) if is_script else _definitions(parts, clear, set(wanted))
    joined = [parts[index] for index in sorted(picked)]
    if len(joined) == 1:
        return joined[0]
    future = dict.fromkeys(line.strip() for part in joined for line in _FUTURE.findall(part))
    return "\n\n".join([*future, *(_FUTURE.sub("", part) for part in joined)])


def _bounded(parts: list[str]) -> str | None:
    """The last parts, as many as are no longer together than a program may be."""
    kept: list[str] = []
    size = 0
    for part in reversed(parts):
        size += len(part)
        if size > _MOST:
            break
        kept.insert(0, part.replace("\f", "").replace("\r\n", "\n"))
    text = BETWEEN.join(kept)
    return text if text.strip() else None


def _continued(completion: str) -> str | None:
    """The text before a bare first fence, if that is code: the prompt opened the block."""
    lines = completion.split("\n")
    for number, line in enumerate(lines):
        if line.lstrip().startswith(("```", "~~~")):
            head = "\n".join(lines[:number])
            is_bare = not line.strip().strip("`~")
            if is_bare and head.strip() and (_is_indented(head) or _is_program(head)):
                return head + "\n"
            return None
    return None


def _is_indented(text: str) -> bool:
    first = next(line for line in text.split("\n") if line.strip())
    return first[0] in " \t"


def _is_program(text: str) -> bool:
    """Whether a text is Python that defines or does something."""
    known = python_names.of(text)
    return known is not None and (known.has_definitions or known.shows or known.reads)


def _parts(fenced: list[Block]) -> list[str]:
    """The blocks that may be the program or parts of it, in order."""
    filled = [b for b in fenced if 0 < len(b.text.strip()) <= _MOST and not _is_session(b.text)]
    filled = filled[-_BLOCKS:]
    own = [b for b in filled if b.language in _PYTHON]
    plain = [b for b in filled if not b.language]
    if own:
        kept = [b for b in filled if b in own or (b in plain and _defines(b.text))]
    elif plain:
        kept = [b for b in plain if _is_program(b.text)]
        kept = kept or [b for b in plain if _is_code(b.text)][-1:]
    else:
        kept = [b for b in filled if _is_program(b.text)]
    return _readable(kept)


def _readable(blocks: list[Block]) -> list[str]:
    """Without blocks that are no Python, unless they are what was meant last.

    One that continues where another ends, as the body of its function, is joined with that.
    """
    if len(blocks) == 1:
        return [blocks[0].text]
    parts: list[str] = []
    broken: Block | None = None
    for block in blocks:
        if python_names.of(block.text) is not None:
            parts.append(block.text)
            broken = None
        elif parts and _goes_on(parts[-1], block.text):
            parts[-1] += block.text
        else:
            broken = block
    if broken is None:
        return parts
    is_meant = broken.is_closed and _DEFINES.search(broken.text)
    if not parts or is_meant:
        return [*parts, broken.text]
    return parts


def _goes_on(part: str, text: str) -> bool:
    """Whether a text is more of a body that does not end where its block does."""
    if not _is_indented(text) or text.strip() in part:
        return False
    last = part.rstrip().rpartition("\n")[2].split()
    is_over = last[:1] in (["return"], ["raise"]) and not _DEFINES.match(text.lstrip())
    return not is_over and python_names.of(part + text) is not None


def _is_session(text: str) -> bool:
    return text.lstrip().startswith(">>>")


def _defines(text: str) -> bool:
    return bool(_DEFINES.search(text)) and python_names.of(text) is not None


def _is_code(text: str) -> bool:
    """Whether some line of a text looks like Python."""
    return any(_CODE.match(line.strip()) for line in text.split("\n"))


def _outside(completion: str, fenced: list[Block]) -> str:
    """A text without its fenced blocks."""
    inside = {line.strip() for block in fenced for line in block.text.split("\n")}
    lines = (line for line in completion.split("\n") if line.strip() not in inside)
    return "\n".join(line for line in lines if not line.lstrip().startswith(("```", "~~~")))


def _unfenced(text: str) -> str | None:
    """The program of a text without fences, without the text before and after it."""
    for tag in _TAGS:
        inner = [match["text"] for match in tag.finditer(text) if match["text"].strip()]
        if inner:
            text = inner[-1].strip("\n") + "\n"
            break
    if not text.strip() or len(text) > _MOST:
        return None
    if _is_indented(text) or _is_program(text):
        return text
    if not _is_code(text):
        return None
    if python_names.of(text) is not None:
        return text
    lines = text.split("\n")
    first = next((n for n, line in enumerate(lines) if line.strip()), 0)
    if not _CODE.match(lines[first]):
        first = next((n for n, line in enumerate(lines) if _BEGINS.match(line)), first)
    cut = _without_prose(lines[first:])
    return cut if _is_program(cut) else text


def _without_prose(lines: list[str]) -> str:
    """Lines of code, up to the first that is a sentence at the margin."""
    ends = (n for n, line in enumerate(lines) if n and line[:1].strip() and _is_prose(line))
    for number in itertools.islice(ends, _TRIES):
        if python_names.of("\n".join(lines[:number])) is not None:
            return "\n".join(lines[:number]) + "\n"
    return "\n".join(lines)


def _is_prose(line: str) -> bool:
    return bool(_SENTENCE.match(line)) and not _CODE.match(line)


def _with_needs(known: list[Names], picked: set[int]) -> set[int]:
    """The blocks that are picked, with those that define or import what they need."""
    waiting = list(picked)
    while waiting:
        index = waiting.pop()
        for name in known[index].needs:
            other = _last(known, lambda one, name=name: name in one.defines - one.stubs)
            if other is None:
                other = _last(known, lambda one, name=name: name in one.imports)
            if other is not None and other not in picked:
                picked = picked | {other}
                waiting.append(other)
    return picked


def _last(known: list[Names], holds) -> int | None:  # type: ignore[no-untyped-def]
    return next((n for n in reversed(range(len(known))) if holds(known[n])), None)


def _definitions(parts: list[str], known: list[Names], wanted: set[str]) -> set[int]:
    """The blocks that define what tests call, and what these need."""
    picked: set[int] = set()
    for name in wanted:
        for holds in (
            lambda one, name=name: name in one.defines - one.stubs,
            lambda one, name=name: name in one.defines,
        ):
            place = _last(known, holds)
            if place is None:
                within = [
                    n for n, part in enumerate(parts) if python_names.defined_within(part, name)
                ]
                place = within[-1] if within else None
            if place is not None:
                picked.add(place)
                break
    if not picked:
        place = _last(known, lambda one: one.has_definitions)
        picked = {len(known) - 1 if place is None else place}
    return _with_needs(known, picked)


def _script(known: list[Names]) -> set[int]:
    """The blocks of a script: the last that does something, of those that read their input."""
    runs = []
    for index in reversed(range(len(known))):
        if known[index].shows:
            blocks = _with_needs(known, {index})
            if not any(known[other].shows for other in blocks - {index}):
                runs.append(blocks)
    reading = [blocks for blocks in runs if any(known[index].reads for index in blocks)]
    if reading or runs:
        return (reading or runs)[0]
    place = _last(known, lambda one: one.has_definitions)
    return _with_needs(known, {len(known) - 1 if place is None else place})

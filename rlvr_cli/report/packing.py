"""The table of prompts and all completions, packed into a page: JSON, deflated, in base64.

Shapes: N completions.
"""

import base64
import json
import os
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlvr_cli.report import answers
from rlvr_cli.report.answers import Completion
from rlvr_cli.report.examples import spoken, spoken_with_images
from rlvr_cli.report.palette import Palette
from rlvr_cli.report.pictures import Album
from rlvr_cli.report.prompts import PromptRow
from rlvr_cli.report.subject import Subject
from rlvr_cli.report.texts import Setter
from rlvr_cli.terminal.escape import brief, shown

LEAST, MOST = 200, 200_000  # characters that any completion keeps, and that the longest keeps
_BLOCK = 200_000  # characters of JSON that are packed together
_LISTED = 400  # characters of a prompt in the table, which its search sees
_SAMPLED = 16  # prompts of a part from which the size of all is taken
_BYTES_SET = 0.25  # of a set character, deflated in base64: Markdown and MathML


@dataclass(frozen=True)
class Packed:
    """The contents of the page: a table, blocks of completions, and notes on cut or raw texts."""

    rows: int
    table: str
    blocks: list[str]
    note: str


class Packing:
    """All rows with their completions in about `most_bytes`: longer texts lose their middle.

    Threads deflate while other work continues, until `done`.
    """

    def __init__(
        self,
        subjects: Sequence[Subject],
        rows: Sequence[PromptRow],
        palette: Palette,
        setter: Setter,
        album: Album,
        *,
        most_bytes: int,
    ) -> None:
        self._subjects, self._rows, self._palette = subjects, rows, palette
        self._setter, self._album, self._most_bytes = setter, album, most_bytes
        self._pool = ThreadPoolExecutor(os.cpu_count())
        room = most_bytes - min(setter.most, _set_in(subjects)) * _BYTES_SET
        self._begin(_fitting(subjects, int(room)))

    def _begin(self, most: int) -> None:
        self._most = most
        self._setter.reset()
        written = _written(self._subjects, self._rows, self._setter, self._album, most)
        self._block_of: list[tuple[int, int]] = []
        self._packed: list[Future[str]] = []
        for block in written:
            self._block_of += [(len(self._packed), place) for place in range(len(block))]
            self._packed.append(self._pool.submit(deflated, "[" + ",\n".join(block) + "]"))

    def done(self) -> Packed:
        """The blocks; if they turn out too large, they are packed again from shorter texts."""
        while True:
            blocks = [future.result() for future in self._packed]
            size = sum(map(len, blocks))
            if size <= self._most_bytes or self._most == LEAST:
                break
            self._begin(max(LEAST, int(0.9 * self._most * self._most_bytes / size)))
        self._pool.shutdown()
        table = _table(self._subjects, self._rows, self._block_of, self._palette)
        note = _note(self._subjects, self._setter, self._most)
        return Packed(len(self._rows), table, blocks, note)


def _set_in(subjects: Sequence[Subject]) -> int:
    return sum(int(subject.rows.characters_N.sum()) for subject in subjects)


def _fitting(subjects: Sequence[Subject], room: int) -> int:
    """How many characters a completion may keep, from what a sample of prompts takes."""
    sample = [(s, *prompt) for s in subjects for prompt in _sampled(s)]
    times = sum(len(s.rows.part_of) for s in subjects) / len(sample)

    def size(most: int) -> float:
        raw = Setter(0)
        text = "".join(_side(s, prompt_id, c, raw, most) for s, prompt_id, c in sample)
        return times * len(deflated(text)) / 0.95

    if size(MOST) <= room:
        return MOST
    low, high = LEAST, min(MOST, max(int(s.rows.characters_N.max()) for s in subjects))
    for _ in range(7):
        middle = int((low * high) ** 0.5)
        low, high = (middle, high) if size(middle) <= room else (low, middle)
    return low


def _sampled(subject: Subject) -> Iterator[tuple[str, list[Completion]]]:
    """A few prompts with their completions, of the first, the middle and the last part."""
    parts = len(subject.scores)
    of_part: dict[int, list[str]] = {}
    for prompt_id, part in subject.rows.part_of.items():
        of_part.setdefault(part, []).append(prompt_id)
    for part in sorted({0, parts // 2, parts - 1} & set(of_part)):
        ids = of_part[part]
        wanted = set(ids[:: -(-len(ids) // _SAMPLED)])
        yield from answers.by_prompt(subject, [part], wanted)


def _written(
    subjects: Sequence[Subject],
    rows: Sequence[PromptRow],
    setter: Setter,
    album: Album,
    most: int,
) -> Iterator[list[str]]:
    """The JSON of all rows, in lists of about a block."""
    row_of = {(i, row.prompt_id): r for r, row in enumerate(rows) for i in row.counts}
    # Of little text all is set; of much each prompt has its share.
    total = sum(int(s.rows.characters_N.clip(max=most).sum()) for s in subjects)
    total += sum(len(row.text.messages) + len(row.text.answer or "") for row in rows if row.text)
    share = 0.0 if total <= setter.most else setter.most / (len(row_of) + len(rows))
    setter.allow(0.0 if share else setter.most)
    sides = [["null"] * len(subjects) for _ in rows]
    for index, subject in enumerate(subjects):
        assert subject.lineage.scores is not None
        for prompt_id, completions in answers.by_prompt(
            subject, range(len(subject.lineage.scores))
        ):
            setter.allow(share)
            side = _side(subject, prompt_id, completions, setter, most)
            sides[row_of[index, prompt_id]][index] = side
    yield from _cut(rows, sides, setter, album, share)


def _side(
    subject: Subject, prompt_id: str, completions: list[Completion], setter: Setter, most: int
) -> str:
    """What a subject wrote for a prompt: its groups, and its texts with length and cut."""
    clusters = subject.rows.clusters.get(prompt_id, np.zeros(0, dtype=np.int64))
    groups = answers.grouped(completions, clusters)
    first = [group.members[0] for group in groups]  # these are set first, for they are seen first
    order = [*first, *sorted(set(range(len(completions))) - set(first))]
    texts = {place: setter.text(completions[place].text, most).packed() for place in order}
    return _json(
        {
            "groups": [[g.verdict, g.answer, g.reason, g.members] for g in groups],
            "texts": [[texts[p], one.length, int(one.cut)] for p, one in enumerate(completions)],
        }
    )


def _cut(
    rows: Sequence[PromptRow],
    sides: list[list[str]],
    setter: Setter,
    album: Album,
    share: float,
) -> Iterator[list[str]]:
    """The JSON of the rows, in lists of about a block."""
    block: list[str] = []
    size = 0
    for row, own_sides in zip(rows, sides, strict=True):
        asked, gold = [], None
        setter.allow(share)
        if row.text:
            asked = [
                [shown(role), album.text(setter.text(said, MOST), images).packed()]
                for role, said, images in spoken_with_images(row.text.messages)
            ]
            gold = row.text.answer and setter.text(row.text.answer, MOST).packed()
        written = ",".join(own_sides)
        block.append(f'{{"prompt":{_json(asked)},"gold":{_json(gold)},"sides":[{written}]}}')
        size += len(block[-1])
        if size >= _BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block


def _table(
    subjects: Sequence[Subject],
    rows: Sequence[PromptRow],
    block_of: list[tuple[int, int]],
    palette: Palette,
) -> str:
    sources = sorted({row.text.source for row in rows if row.text})
    number = {source: index for index, source in enumerate(sources)}
    return deflated(
        _json(
            {
                "subjects": [
                    {
                        "name": shown(s.name),
                        "colour": palette.run(s.name).colour,
                        "unit": s.rows.unit,
                    }
                    for s in subjects
                ],
                "sources": [shown(source) for source in sources],
                "rows": [
                    [
                        row.key if row.key != row.prompt_id else 0,
                        shown(row.prompt_id),
                        number[row.text.source] if row.text else -1,
                        _said(row),
                        *block,
                        int(row.compared),
                        [_numbers(row, index) for index in range(len(subjects))],
                    ]
                    for row, block in zip(rows, block_of, strict=True)
                ],
            }
        )
    )


def _numbers(row: PromptRow, index: int) -> Any:
    c = row.counts.get(index)
    return [c.right, c.judged, c.n, c.clusters, c.cut] if c else 0


def _said(row: PromptRow) -> str:
    """What a prompt says, in a line: its last message."""
    messages = spoken(row.text.messages) if row.text else []
    return brief(" ".join(messages[-1][1].split()), _LISTED) if messages else ""


def _note(subjects: Sequence[Subject], setter: Setter, most: int) -> str:
    length_N = np.concatenate([s.rows.characters_N for s in subjects])
    cut = int((length_N > most).sum())
    notes = []
    if cut:
        notes.append(
            f"{cut:,} of {len(length_N):,} completions are longer than {most:,} characters and "
            "have lost their middle here; --max-mb sets how much the page may hold."
        )
    if setter.raw:
        notes.append(
            f"{setter.raw:,} text{' is' if setter.raw == 1 else 's are'} shown raw: --typeset says "
            f"how many characters are set, here {setter.most:,}."
        )
    return " ".join(notes)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def deflated(text: str) -> str:
    """The text, deflated, in base64; DecompressionStream("deflate") reads it."""
    return base64.b64encode(zlib.compress(text.encode(errors="replace"), 6)).decode()

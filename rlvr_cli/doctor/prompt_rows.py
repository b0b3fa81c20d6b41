"""What is wrong with prompts: their ids, texts, golds and lengths.

The rows come in batches, one of which is in memory at a time; of each earlier row two hashes of 8
bytes are kept, and 6 bytes for its length and form.
"""

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rlvr_cli.config import RolloutOptions
from rlvr_cli.doctor import golds
from rlvr_cli.doctor.encoded import EncodedPrompts
from rlvr_cli.doctor.finding import MOST, Finding, Level, some
from rlvr_cli.doctor.pictures import PromptImages
from rlvr_cli.models import messages
from rlvr_cli.models.policy import Policy
from rlvr_cli.stages import score

PromptRow = dict[str, Any]
Batches = Callable[[], Iterator[list[PromptRow]]]


def examine(batches: Batches, policy: Policy | None, options: RolloutOptions) -> Iterator[Finding]:
    """The findings on prompts; each call of `batches` yields them from the start."""
    doubles, answers, images = _Doubles(), _Answers(), PromptImages()
    with score.scorer(use_cache=False) as scorer:
        read = golds.Golds(scorer)
        encoded = EncodedPrompts(policy, options) if policy else None
        for rows in batches():
            doubles.add(rows)
            answers.add(rows)
            images.add(rows)
            read.add(rows)
            if encoded and rows:
                encoded.add(rows)
    yield from doubles.findings(batches)
    yield from answers.findings()
    yield from images.findings()
    yield from read.findings()
    if encoded:
        yield from encoded.findings()


@dataclass
class _Answers:
    """Prompts that end with the assistant's turn, in which the policy would see the answer."""

    rows: int = 0
    count: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, rows: list[PromptRow]) -> None:
        self.rows += len(rows)
        for row in rows:
            prompt = messages.stored(row["messages"], row["prompt_id"])
            if messages.ends_with_answer(prompt):
                self.count += 1
                self.names += [row["prompt_id"]] * (self.count <= MOST)

    def findings(self) -> Iterator[Finding]:
        if self.count:
            yield Finding(
                "problem",
                "turns",
                f"{self.count} of {self.rows} prompts end with the assistant's turn: "
                f"{some(self.names)}",
                "leave that turn out with `rlvr prompts ... --drop-answer-turn`",
            )


@dataclass
class _Text:
    """The prompts of one text: the first two ids, and whether their golds differ."""

    first: str
    answer: str | None
    second: str | None = None
    differs: bool = False


@dataclass
class _Doubles:
    """Ids and texts that several prompts share, compared by hash first and then by value."""

    ids: "array[int]" = field(default_factory=lambda: array("q"))
    texts: "array[int]" = field(default_factory=lambda: array("q"))

    def add(self, rows: list[PromptRow]) -> None:
        self.ids.extend(hash(row["prompt_id"]) for row in rows)
        self.texts.extend(hash(row["messages"]) for row in rows)

    def findings(self, batches: Batches) -> Iterator[Finding]:
        suspects, groups = _repeated(self.ids), _repeated(self.texts)
        counts: Counter[str] = Counter()
        by_text: dict[bytes, _Text] = {}
        for rows in batches() if suspects or groups else ():
            counts.update(r["prompt_id"] for r in rows if hash(r["prompt_id"]) in suspects)
            for row in rows:
                if hash(row["messages"]) in groups:
                    _note(by_text, row)
        twice = [name for name, count in counts.items() if count > 1]
        if twice:
            yield Finding(
                "problem",
                "ids",
                f"{len(twice)} ids belong to several prompts each: {some(twice)}",
                "name a column of distinct values with --id-column, or none to number the rows",
            )
        same = [text for text in by_text.values() if text.second is not None]
        differ = [text for text in same if text.differs]
        kinds: tuple[tuple[Level, list[_Text], str], ...] = (
            ("problem", differ, "with different golds"), ("note", same, "")
        )  # fmt: skip
        for level, texts, what in kinds:
            if texts:
                names = [f"{text.first} = {text.second}" for text in texts[:MOST]]
                message = f"{len(texts)} texts belong to several prompts each {what}".rstrip()
                hint = "keep one of each: they would count twice"
                yield Finding(level, "prompts", f"{message}: {some(names)}", hint)
                break
        if not twice and not same:
            yield Finding("ok", "prompts", f"{len(self.ids)}, no id and no text twice")


def _repeated(hashes: "array[int]") -> set[int]:
    values, counts = np.unique(np.array(hashes, dtype=np.int64), return_counts=True)
    return set(values[counts > 1].tolist())


def _note(by_text: dict[bytes, _Text], row: PromptRow) -> None:
    key = hashlib.blake2b(row["messages"].encode(errors="surrogatepass"), digest_size=16).digest()
    text = by_text.get(key)
    if text is None:
        by_text[key] = _Text(row["prompt_id"], row["answer"])
        return
    text.second = row["prompt_id"] if text.second is None else text.second
    text.differs |= text.answer != row["answer"]

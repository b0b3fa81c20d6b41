"""Prompts that occur twice: within a set, or in a training set and a held-out one."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError
from rlvr_cli.stages.reading import Source
from rlvr_cli.storage.shards import Shards

_NUMBERED = re.compile(r"-\d{6,}$")  # ends an id that says no more than the number of a row


@dataclass(frozen=True)
class Overlap:
    """Held-out prompts that are trained on: how many match by text, and how many only by id."""

    text: int
    id_alone: int
    example: str  # the id of one, in the held-out set

    @property
    def prompts(self) -> int:
        return self.text + self.id_alone


def text_of(messages: str) -> str:
    """What a prompt asks, from the JSON of its text or messages: white space and roles aside.

    System messages do not count: they are the same for all.
    """
    return text_of_value(json.loads(messages))


def text_of_value(prompt: Any) -> str:
    """`text_of` a text or a list of messages."""
    if isinstance(prompt, list):
        turns = [m for m in prompt if isinstance(m, dict) and m.get("role") != "system"]
        prompt = " ".join(_content(turn.get("content")) for turn in turns)
    return " ".join(str(prompt).split())


def _content(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def between(training: Iterable[tuple[str, str]], heldout: Iterable[tuple[str, str]]) -> Overlap:
    """The overlap of two sets of ids and messages.

    An id that ends with the number of a row, as rlvr gives them, says nothing of what is asked.
    """
    known = _Known(training)
    counts = {"text": 0, "id": 0}
    example = ""
    for prompt_id, messages in heldout:
        if by := known.by(prompt_id, messages):
            counts[by] += 1
            example = example or prompt_id
    return Overlap(counts["text"], counts["id"], example)


class _Known:
    """The ids and texts of a set."""

    def __init__(self, prompts: Iterable[tuple[str, str]]) -> None:
        pairs = [(prompt_id, text_of(messages)) for prompt_id, messages in prompts]
        self._ids = {prompt_id for prompt_id, _ in pairs if not _NUMBERED.search(prompt_id)}
        self._texts = {text for _, text in pairs}

    def by(self, prompt_id: str, messages: str) -> str:
        """How the set has a prompt: by its `text` or its `id`; empty if it does not."""
        if text_of(messages) in self._texts:
            return "text"
        return "id" if prompt_id in self._ids else ""


def without(source: Source, directories: list[Path]) -> Source:
    """The prompts that are in none of the directories of prompts, by text or by id."""
    others = [Shards.open(path, "prompts") for path in directories]
    if not others:
        return source
    known = _Known(pair for shards in others for pair in of_shards(shards))
    rows = [row for row in source.rows if not known.by(row["prompt_id"], row["messages"])]
    gone = len(source.rows) - len(rows)
    if not rows:
        raise DataError(
            f"all {gone} prompts are in `{directories[0]}`", "name other prompts with --without"
        )
    return replace(
        source,
        rows=rows,
        params=source.params | {"without": sorted(shards.digest for shards in others)},
        facts=source.facts | {"withheld": gone},
        remarks=(*source.remarks, f"left out {gone} that are also in --without"),
    )


def of_shards(prompts: Shards) -> Iterator[tuple[str, str]]:
    """The id and the messages of each prompt of a directory."""
    for index in range(len(prompts)):
        table = prompts.part(index, ["prompt_id", "messages"])
        yield from zip(*(column.to_pylist() for column in table.columns), strict=True)


def repeated(prompts: Iterable[tuple[str, str]]) -> int:
    """How many prompts ask what an earlier one of the set asks."""
    texts = [text_of(messages) for _, messages in prompts]
    return len(texts) - len(set(texts))


def without_repeats(source: Source, *, drop: bool) -> Source:
    """The prompts, with a remark of how many repeat another's text; `drop` leaves those out."""
    first: dict[str, dict[str, Any]] = {}
    kept, contradicted, total = [], 0, len(source.rows)
    for row in source.rows:
        before = first.setdefault(text_of(row["messages"]), row)
        if before is row:
            kept.append(row)
        else:
            contradicted += before["answer"] != row["answer"]
    repeats = total - len(kept)
    facts = source.facts
    if drop:
        facts = facts | {"duplicates": facts.get("duplicates", 0) + repeats}
    params = source.params | ({"drop_duplicates": True} if drop else {})
    if not repeats:
        return replace(source, facts=facts, params=params)
    others = f", {contradicted} of them with another answer" if contradicted else ""
    end = "left out" if drop else "leave them out with --drop-duplicates"
    remark = f"{repeats} of {total} prompts repeat the text of an earlier one{others}: {end}"
    rows = kept if drop else source.rows
    return replace(source, rows=rows, facts=facts, params=params, remarks=(*source.remarks, remark))

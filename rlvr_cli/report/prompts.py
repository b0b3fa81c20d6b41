"""The prompts of all subjects as rows of one table.

Shapes: P prompts, N completions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rlvr_cli.report.comparing import SubjectPair
from rlvr_cli.report.rows import RIGHT, UNKNOWN
from rlvr_cli.report.subject import Subject
from rlvr_cli.stages import common


@dataclass(frozen=True)
class PromptCounts:
    """What a subject wrote for a prompt, counted."""

    right: int
    judged: int  # completions with a verdict
    n: int
    clusters: int  # different right solutions
    cut: int | None  # None where nothing says which were cut


@dataclass(frozen=True)
class PromptText:
    """A prompt as its directory has it: where it is from, its messages as JSON, its gold answer."""

    source: str
    messages: str
    answer: str | None


@dataclass
class PromptRow:
    """A prompt, and its counts by subject; `key` is its id, or more where other prompts have it."""

    key: str
    prompt_id: str
    text: PromptText | None
    counts: dict[int, PromptCounts] = field(default_factory=dict)
    compared: bool = False  # whether the last subject is compared with the first on it


def rows(subjects: Sequence[Subject], pairs: Sequence[SubjectPair]) -> list[PromptRow]:
    """All prompts that any subject has completions of, in the order in which they come.

    Two prompts are one row if their ids agree, and what is known of their texts and golds. Sources
    may differ: completions without one have the name of the file from which they were imported.
    """
    prompt_rows: list[PromptRow] = []
    by_id: dict[str, list[PromptRow]] = {}
    for index, subject in enumerate(subjects):
        texts = _texts(subject)
        for prompt_id, counts in _counts(subject).items():
            text = texts.get(prompt_id)
            alike = by_id.setdefault(prompt_id, [])
            row = next((r for r in alike if index not in r.counts and _agree(r.text, text)), None)
            if row is None:
                key = f"{prompt_id} ({len(alike) + 1})" if alike else prompt_id
                row = PromptRow(key, prompt_id, text)
                alike.append(row)
                prompt_rows.append(row)
            row.text = row.text or text
            row.counts[index] = counts
    ends = (subjects[0].name, subjects[-1].name)
    last = [pair for pair in pairs if (pair.first.name, pair.second.name) == ends]
    compared = set(last[0].prompts) if last else set()
    for row in prompt_rows:
        both = 0 in row.counts and len(subjects) - 1 in row.counts
        row.compared = both and row.prompt_id in compared
    return prompt_rows


def _agree(one: PromptText | None, other: PromptText | None) -> bool:
    if one is None or other is None:
        return True
    return (one.messages, one.answer) == (other.messages, other.answer)


def _texts(subject: Subject) -> dict[str, PromptText]:
    prompts = subject.lineage.prompts
    names = ("prompt_id", "source", "messages", "answer")
    return {
        prompt_id: PromptText(source, messages, answer)
        for table in (prompts.parts() if prompts else ())
        for prompt_id, source, messages, answer in zip(
            *(table[name].to_pylist() for name in names), strict=True
        )
    }


def _counts(subject: Subject) -> dict[str, PromptCounts]:
    rows = subject.rows
    code_N = common.group_codes(rows.prompt_id)
    ids = list(dict.fromkeys(rows.prompt_id))

    def count(flag_N: np.ndarray) -> list[int]:
        counted: list[int] = np.bincount(code_N[flag_N], minlength=len(ids)).tolist()
        return counted

    every_N = np.ones(len(code_N), dtype=bool)
    is_known = rows.unknown_ends < len(code_N)
    counts = zip(
        count(rows.verdict_N == RIGHT),
        count(rows.verdict_N != UNKNOWN),
        count(every_N),
        (len(set(rows.clusters.get(prompt_id, np.zeros(0)).tolist())) for prompt_id in ids),
        count(rows.cut_N) if is_known else [None] * len(ids),
        strict=True,
    )
    return {prompt_id: PromptCounts(*values) for prompt_id, values in zip(ids, counts, strict=True)}

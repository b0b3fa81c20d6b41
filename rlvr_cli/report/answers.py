"""The completions of a prompt, grouped by their answers.

Shapes: N completions of a prompt.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rlvr_cli.report.rows import RIGHT, UNKNOWN, WRONG
from rlvr_cli.report.subject import Subject
from rlvr_cli.terminal.escape import brief

LONGEST_ANSWER = 80  # characters; a longer one, or one of several lines, is no name of a group
_COLUMNS = (
    "prompt_id",
    "completion",
    "correct",
    "extracted",
    "reason",
    "status",
    "finish_reason",
    "length",
)


@dataclass(frozen=True)
class Completion:
    """What was written, and what the verifier says of it."""

    text: str
    verdict: int  # RIGHT, WRONG or UNKNOWN
    extracted: str | None
    reason: str | None
    status: str
    cut: bool
    length: int  # in the subject's unit


@dataclass(frozen=True)
class AnswerGroup:
    """Completions that are one solution, one wrong answer, or without verdict for one reason."""

    verdict: int
    answer: str | None  # what was read in them, where it is short and the same
    reason: str | None
    members: list[int]  # places among the completions of the prompt


def by_prompt(
    subject: Subject, parts: Iterable[int], wanted: set[str] | None = None
) -> Iterator[tuple[str, list[Completion]]]:
    """The completions of each prompt in these parts of a subject; if given, only of `wanted`."""
    for index in parts:
        written = subject.lineage.rollouts.part(index, ["completion", "finish_reason"])
        judged = subject.scores.part(
            index, ["prompt_id", "correct", "extracted", "reason", "status"]
        )
        columns = dict(zip(judged.column_names, judged.columns, strict=True))
        columns |= dict(zip(written.column_names, written.columns, strict=True))
        first = subject.rows.first_of[index]
        columns["length"] = pa.array(subject.rows.length_N[first : first + judged.num_rows])
        if wanted is not None:
            chosen = pc.is_in(columns["prompt_id"], pa.array(sorted(wanted), pa.string()))
            columns = {name: column.filter(chosen) for name, column in columns.items()}
        values = (columns[name].to_pylist() for name in _COLUMNS)
        by_id: dict[str, list[Completion]] = {}
        for prompt_id, text, correct, extracted, reason, status, finish, length in zip(
            *values, strict=True
        ):
            verdict = UNKNOWN if correct is None else RIGHT if correct else WRONG
            by_id.setdefault(prompt_id, []).append(
                Completion(text, verdict, extracted, reason, status, finish == "length", length)
            )
        yield from by_id.items()


def grouped(completions: list[Completion], cluster_N: np.ndarray) -> list[AnswerGroup]:
    """Solutions, wrong answers and completions without verdict, each kind by size.

    `cluster_N` has the cluster of each right completion in their order. Wrong ones are together if
    the same answer was read in them, or none for the same reason.
    """
    members: dict[tuple[int, object, object], list[int]] = {}
    clusters = iter(cluster_N.tolist())
    for place, one in enumerate(completions):
        key: tuple[int, object, object]
        if one.verdict == RIGHT:
            key = (RIGHT, next(clusters), None)
        elif one.verdict == WRONG and (answer := _name(one.extracted)) is not None:
            key = (WRONG, answer, None)
        else:
            key = (one.verdict, None, one.reason or (one.status if one.status != "ok" else None))
        members.setdefault(key, []).append(place)
    groups = []
    for (verdict, _, reason), places in members.items():
        names = {_name(completions[place].extracted) for place in places}
        answer = next(iter(names)) if len(names) == 1 else None
        said = None if reason is None else brief(reason, 200)
        groups.append(AnswerGroup(verdict, answer, said, places))
    order = (RIGHT, WRONG, UNKNOWN)
    return sorted(groups, key=lambda g: (order.index(g.verdict), -len(g.members)))


def _name(extracted: str | None) -> str | None:
    if extracted is None or len(extracted) > LONGEST_ANSWER or "\n" in extracted.strip():
        return None
    return brief(extracted.strip(), LONGEST_ANSWER)

"""A few prompts with their completions: the different solutions, and mistakes."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from rlvr_cli.interop.turns import turns
from rlvr_cli.report.comparing import SubjectPair
from rlvr_cli.report.subject import Subject
from rlvr_cli.stages import common
from rlvr_cli.storage.lineage import Lineage
from rlvr_cli.terminal.escape import clipped, shown

MOST_TEXT = 1500  # characters of a text that are shown
MOST_CLUSTERS = 5
MOST_WRONG = 2


@dataclass(frozen=True)
class Text:
    """A text that is safe to show, and how many characters were left out."""

    text: str
    left_out: int
    count: int = 1  # completions that it represents
    extracted: str | None = None
    reason: str | None = None

    @staticmethod
    def of(
        text: str, count: int = 1, extracted: str | None = None, reason: str | None = None
    ) -> "Text":
        start, left_out = clipped(text, MOST_TEXT)
        said = [t if t is None else shown(clipped(t, 200)[0]) for t in (extracted, reason)]
        return Text(shown(start), left_out, count, *said)


@dataclass(frozen=True)
class SubjectAnswers:
    """What one subject wrote for a prompt."""

    name: str
    right: int
    n: int
    clusters: list[Text]
    more_clusters: int
    wrong: list[Text]
    more_wrong: int


@dataclass
class Example:
    """A prompt, why it was chosen, and each subject's completions of it."""

    prompt_id: str
    why: str
    prompt: list[tuple[str, Text]] = field(default_factory=list)  # role and content
    gold: Text | None = None
    sides: list[SubjectAnswers] = field(default_factory=list)


def choose(subject: Subject, pair: SubjectPair | None, most: int) -> list[Example]:
    """Prompts lost, gained, with the most solutions, half right, never right, in turn."""
    share_P = subject.tallied.correct_P / subject.tallied.n_P
    clusters_P = subject.measures.value_PM[:, subject.measures.names.index("clusters")]
    prompt_ids = subject.tallied.prompt_id
    varied = [prompt_ids[p] for p in np.argsort(-clusters_P, kind="stable") if clusters_P[p] > 0]
    half = [prompt_ids[p] for p in np.argsort(np.abs(share_P - 0.5), kind="stable")]
    never = [prompt_ids[p] for p in np.flatnonzero(share_P == 0)]
    queues = [
        ("right before, never after", list(pair.lost) if pair else []),
        ("never right before, right after", list(pair.gained) if pair else []),
        ("the most different solutions", varied[:1]),
        ("about half right", [p for p in half if 0 < share_P[prompt_ids.index(p)] < 1][:1]),
        ("never right", never),
        ("many different solutions", varied[1:]),
    ]
    chosen: dict[str, Example] = {}
    while any(queue for _, queue in queues) and len(chosen) < most:
        for why, queue in queues:
            fresh = [p for p in queue if p not in chosen]
            if fresh and len(chosen) < most:
                chosen[fresh[0]] = Example(fresh[0], why)
            queue[:] = fresh[1:]
    return list(chosen.values())


def fill(examples: list[Example], subjects: list[Subject]) -> None:
    """Reads the texts of the chosen prompts, reading only the parts that contain them."""
    wanted = {example.prompt_id: example for example in examples}
    for subject in subjects:
        _add_prompts(wanted, subject.lineage)
        parts = sorted({subject.rows.part_of[p] for p in wanted if p in subject.rows.part_of})
        for index in parts:
            for prompt_id, side in _sides(subject, index, set(wanted)):
                wanted[prompt_id].sides.append(side)


def _add_prompts(wanted: dict[str, Example], lineage: Lineage) -> None:
    for table in lineage.prompts.parts() if lineage.prompts else ():
        names = (table[name].to_pylist() for name in ("prompt_id", "messages", "answer"))
        for prompt_id, messages, answer in zip(*names, strict=True):
            if (example := wanted.get(prompt_id)) and not example.prompt:
                example.prompt = [(role, Text.of(text)) for role, text in spoken(messages)]
                example.gold = None if answer is None else Text.of(answer)


def spoken(messages: str) -> list[tuple[str, str]]:
    """Role and text of each message; raw text is the prompt's."""
    return turns(json.loads(messages))


def _sides(subject: Subject, index: int, wanted: set[str]) -> Iterator[tuple[str, SubjectAnswers]]:
    """Each wanted prompt of a part, with its solutions by size and its first mistakes."""
    columns = common.zip_columns(index, subject.lineage.rollouts, subject.scores)
    names = ("prompt_id", "completion", "correct", "extracted", "reason")
    rows: dict[str, list[tuple[str, bool | None, str | None, str | None]]] = {}
    for prompt_id, *row in zip(*(columns[name].to_pylist() for name in names), strict=True):
        if prompt_id in wanted:
            rows.setdefault(prompt_id, []).append(tuple(row))
    for prompt_id, answers in rows.items():
        right = [text for text, correct, *_ in answers if correct]
        wrong = [(text, read, why) for text, correct, read, why in answers if correct is False]
        labels = subject.rows.clusters.get(prompt_id, np.zeros(0, dtype=np.int64))
        _, first, sizes = np.unique(labels, return_index=True, return_counts=True)
        order = np.argsort(-sizes, kind="stable").tolist()
        clusters = [Text.of(right[first[c]], int(sizes[c])) for c in order[:MOST_CLUSTERS]]
        mistakes = [Text.of(text, 1, read, why) for text, read, why in wrong[:MOST_WRONG]]
        yield (
            prompt_id,
            SubjectAnswers(
                subject.name,
                len(right),
                len(right) + len(wrong),
                clusters,
                max(0, len(order) - MOST_CLUSTERS),
                mistakes,
                max(0, len(wrong) - MOST_WRONG),
            ),
        )

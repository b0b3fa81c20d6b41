"""A few prompts with their completions: the different solutions, and mistakes."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from rlvr_cli.interop.turns import turns
from rlvr_cli.report import answers
from rlvr_cli.report.answers import AnswerGroup, Completion
from rlvr_cli.report.comparing import SubjectPair
from rlvr_cli.report.pictures import Album, of_messages
from rlvr_cli.report.rows import RIGHT, WRONG
from rlvr_cli.report.subject import Subject
from rlvr_cli.report.texts import Setter, Text
from rlvr_cli.storage.lineage import Lineage

MOST_TEXT = 4000  # characters of a text that are shown
MOST_CLUSTERS = 5
MOST_WRONG = 4


@dataclass(frozen=True)
class AnswerExample:
    """One completion that represents all of its group."""

    text: Text
    count: int
    answer: str | None
    reason: str | None


@dataclass(frozen=True)
class SubjectAnswers:
    """What one subject wrote for a prompt."""

    name: str
    right: int
    n: int
    clusters: list[AnswerExample]
    more_clusters: int
    wrong: list[AnswerExample]
    more_wrong: int  # wrong completions that none of `wrong` represents


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


def fill(examples: list[Example], subjects: list[Subject], album: Album) -> None:
    """Reads the texts of the chosen prompts, reading only the parts that contain them."""
    wanted = {example.prompt_id: example for example in examples}
    setter = Setter(sys.maxsize)
    setter.allow(sys.maxsize)
    for subject in subjects:
        _add_prompts(wanted, subject.lineage, setter, album)
        parts = sorted({subject.rows.part_of[p] for p in wanted if p in subject.rows.part_of})
        for prompt_id, completions in answers.by_prompt(subject, parts, set(wanted)):
            wanted[prompt_id].sides.append(_side(subject, prompt_id, completions, setter))


def _add_prompts(
    wanted: dict[str, Example], lineage: Lineage, setter: Setter, album: Album
) -> None:
    for table in lineage.prompts.parts() if lineage.prompts else ():
        names = (table[name].to_pylist() for name in ("prompt_id", "messages", "answer"))
        for prompt_id, messages, answer in zip(*names, strict=True):
            if (example := wanted.get(prompt_id)) and not example.prompt:
                example.prompt = [
                    (role, album.text(setter.text(text, MOST_TEXT), images))
                    for role, text, images in spoken_with_images(messages)
                ]
                example.gold = None if answer is None else setter.text(answer, MOST_TEXT)


def spoken(messages: str) -> list[tuple[str, str]]:
    """Role and text of each message; raw text is the prompt's."""
    return turns(json.loads(messages))


def spoken_with_images(messages: str) -> Iterator[tuple[str, str, list[str]]]:
    """Role and text of each message, and the sha256 of its images."""
    for (role, text), images in zip(spoken(messages), of_messages(messages), strict=True):
        yield role, text, images


def _side(
    subject: Subject, prompt_id: str, completions: list[Completion], setter: Setter
) -> SubjectAnswers:
    """The solutions of a prompt by size, and its wrong answers by their number."""
    clusters = subject.rows.clusters.get(prompt_id, np.zeros(0, dtype=np.int64))
    groups = answers.grouped(completions, clusters)

    def of(verdict: int, most: int) -> tuple[list[AnswerExample], list[AnswerGroup]]:
        alike = [group for group in groups if group.verdict == verdict]
        chosen = [
            AnswerExample(
                setter.text(completions[group.members[0]].text, MOST_TEXT),
                len(group.members),
                group.answer,
                group.reason or completions[group.members[0]].reason,
            )
            for group in alike[:most]
        ]
        return chosen, alike[most:]

    right, other_solutions = of(RIGHT, MOST_CLUSTERS)
    wrong, other_mistakes = of(WRONG, MOST_WRONG)
    counts = [sum(one.verdict == verdict for one in completions) for verdict in (RIGHT, WRONG)]
    return SubjectAnswers(
        subject.name, counts[0], sum(counts), right, len(other_solutions), wrong,
        sum(len(group.members) for group in other_mistakes),
    )  # fmt: skip

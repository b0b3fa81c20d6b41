"""A report in words: the first sentences, and the tiles."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlvr_cli.evaluation import verdicts
from rlvr_cli.evaluation.compare import Cell
from rlvr_cli.report import glossary
from rlvr_cli.report.comparing import SubjectPair
from rlvr_cli.report.sources import ReportSource
from rlvr_cli.report.subject import Subject
from rlvr_cli.terminal import plural, tables

_CLEAR = (verdicts.BETTER, verdicts.WORSE, verdicts.CHANGED)


@dataclass(frozen=True)
class Difference:
    """A paired difference in words, and its verdict."""

    name: str
    mean: str
    ends: str
    verdict: str  # one of `verdicts.WORDS`

    @property
    def style(self) -> str:
        """The class of the verdict on the page."""
        return self.verdict if self.verdict in _CLEAR else "even"


@dataclass(frozen=True)
class Value:
    """One subject's value of a metric in words."""

    name: str  # of the subject, "" where there is one only
    mean: str
    unit: str
    ends: str


@dataclass(frozen=True)
class Tile:
    """One metric of every subject."""

    title: str
    key: str
    values: list[Value]
    differences: list[Difference]


def label(name: str) -> str:
    """A metric's name as a heading."""
    head, at, k = name.partition("@")
    title = glossary.ENTRIES[glossary.of_metric(name)].title
    return f"{title.partition('@')[0]}@{k}" if at and head in ("pass", "ucc") else title


def tiles(subjects: Sequence[Subject], pairs: Sequence[SubjectPair]) -> list[Tile]:
    """The metrics that a reader asks for first."""
    if not subjects:
        return []
    k = min(s.top for s in subjects)
    wanted = ["pass@1", f"pass@{k}", f"ucc@{k}", "ucr", "truncated", "length", "entropy"]
    filled = []
    for name in dict.fromkeys(wanted):
        having = [s for s in subjects if name in s.measures.names]
        if not having:
            continue
        values = [
            Value(
                subject.name if len(subjects) > 1 else "",
                tables.number(name, subject.intervals[name][0]),
                {"length": subject.rows.unit, "entropy": "nats"}.get(name, ""),
                _ends(name, subject.intervals[name]),
            )
            for subject in having
        ]
        differences = [
            difference(pair, name, len(pairs) > 1) for pair in pairs if name in pair.rows
        ]
        filled.append(Tile(label(name), glossary.of_metric(name), values, differences))
    return filled


def difference(pair: SubjectPair, name: str, named: bool = False) -> Difference:
    """Second minus first of one metric."""
    cell = pair.rows[name][-1]
    who = f"{pair.second.name} − {pair.first.name}" if named else "Difference"
    mean = _minus(tables.number(name, cell[0], sign=True))
    return Difference(who, mean, _ends(name, cell, sign=True), pair.comparison.verdict[name])


def _ends(name: str, cell: Cell, *, sign: bool = False) -> str:
    if cell[1] is None:
        return "no interval"
    low, high = (_minus(tables.number(name, value, sign=sign)) for value in cell[1:])
    return f"[{low}, {high}]"


def _minus(text: str) -> str:
    return text.replace("-", "−")


def lede(
    subjects: Sequence[Subject], pairs: Sequence[SubjectPair], sources: Sequence[ReportSource]
) -> list[tuple[str, str]]:
    """The findings: each a first sentence and what goes with it, all with intervals."""
    if not subjects:
        steps = [f"{len(s.run.records)} logged steps of {s.name}" for s in sources if s.run]
        return [(f"{', '.join(steps)}; no evaluation on held-out prompts.", "")]
    if not pairs:
        return [_alone(subject, len(subjects) > 1) for subject in subjects]
    return [_compared(pair) for pair in pairs]


def _alone(subject: Subject, named: bool) -> tuple[str, str]:
    n, k, cells = subject.tallied.n_P, subject.top, subject.intervals
    each = f"{n.min()}" if n.min() == n.max() else f"{n.min()} to {n.max()}"
    text = f"{subject.name}: " if named else ""
    text += f"Pass@1 is {tables.interval('pass@1', cells['pass@1'])} over "
    text += f"{plural.of(len(n), 'prompt')} with {each} completions each."
    if k == 1:
        return text, ""
    ways = tables.interval("ucc@", cells[f"ucc@{k}"])
    passed = tables.interval("pass@", cells[f"pass@{k}"])
    return text, (
        f"{k} completions include a right one for {passed} of the prompts, and {ways} different "
        "right solutions a prompt."
    )


def _compared(pair: SubjectPair) -> tuple[str, str]:
    k = min(pair.first.top, pair.second.top)
    names = dict.fromkeys(["pass@1", f"pass@{k}", f"ucc@{k}"])
    first, *rest = (_change(pair, name) for name in names if name in pair.rows)
    if crossing := _crossing(pair):
        rest.append(crossing)
    where = (
        f"From {pair.first.title} to {pair.second.title}, over "
        f"{plural.of(len(pair.prompts), 'prompt')}"
    )
    return f"{where}: {first}.", ". ".join(rest) + "." if rest else ""


def _crossing(pair: SubjectPair) -> str:
    """Where the curves of Pass@k cross for the last time, over the same prompts."""
    sides = (pair.first, pair.second)
    if any(len(side.tallied.prompt_id) != len(pair.prompts) for side in sides):
        return ""
    ks = [k for k in pair.first.ks if k in set(pair.second.ks)]
    first_K, second_K = (
        np.array([s.intervals[f"pass@{k}"][0] for k in ks], dtype=np.float64) for s in sides
    )
    sign_K = np.sign((second_K - first_K).round(12))  # equal but for rounding is equal
    against = np.flatnonzero(sign_K == -sign_K[-1])
    if not sign_K[-1] or not len(against):
        return ""
    at = next(at for at in range(against[-1], len(ks)) if sign_K[at] == sign_K[-1])
    higher = sides[int(sign_K[-1] > 0)].name
    return f"From k = {ks[at]} on the mean Pass@k of {higher} is the higher one"


def _change(pair: SubjectPair, name: str) -> str:
    before, after = (tables.number(name, cell[0]) for cell in pair.rows[name][:2])
    change = difference(pair, name)
    moved = f"{label(name)} {before} → {after}"
    return f"{moved}, that is {change.mean} {change.ends}, {change.verdict}"

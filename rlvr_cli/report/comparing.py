"""Pairs of subjects: differences over the prompts that both have, gains and losses.

Shapes: P prompts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rlvr_cli.evaluation import compare, conditions, pairing
from rlvr_cli.evaluation.compare import Cell, Comparison
from rlvr_cli.evaluation.measures import Measures
from rlvr_cli.evaluation.tallies import chosen, drawn
from rlvr_cli.report.subject import Subject

AT_EQUAL_N = (
    "flips, gained and lost use equally many on both sides, drawn at random, and UCC and UCR, "
    "which depend on their number, are not compared"
)

# Shares of right completions in the first: the buckets of QUATRO, appendix C, of 256 completions.
BUCKETS = (("very hard", 8 / 256), ("hard", 32 / 256), ("medium", 128 / 256), ("easy", 1.0))


@dataclass(frozen=True)
class DifficultyBucket:
    """Prompts of like difficulty in the first: shares of right completions, and flips."""

    name: str
    most: float  # the largest share right in the first
    prompts: int
    before: Cell | None  # mean share of right completions; None of no prompts
    after: Cell | None
    gained: int
    lost: int


@dataclass(frozen=True)
class SubjectPair:
    """Second minus first over the prompts that both have."""

    first: Subject
    second: Subject
    prompts: list[str]
    comparison: Comparison
    buckets: list[DifficultyBucket]
    gained: list[str]  # never right in the first, right at least once in the second
    lost: list[str]
    notes: list[str]

    @property
    def rows(self) -> dict[str, list[Cell]]:
        """For each metric the first, the second, and the difference."""
        return self.comparison.rows


def judged(pairs: Sequence[SubjectPair | str]) -> list[SubjectPair | str]:
    """The pairs with the verdicts that hold for all of them together."""
    comparisons = [pair.comparison for pair in pairs if isinstance(pair, SubjectPair)]
    verdicts = iter(compare.judged(comparisons))
    return [p if isinstance(p, str) else replace(p, comparison=next(verdicts)) for p in pairs]


def pair(first: Subject, second: Subject) -> SubjectPair | str:
    """The comparison, or why there is none."""
    if why := pairing.refusal(first.name, second.name, first.prompts, second.prompts):
        return f"{why[0]}: they are not compared."
    matched = pairing.match(first.prompts, second.prompts)
    rows_a, rows_b = map(list, zip(*matched.rows, strict=True))
    same = [first.tallied.prompt_id[p] for p in rows_a]
    a, b = chosen(first.tallied, rows_a), chosen(second.tallied, rows_b)
    n_P = np.minimum(a.n_P, b.n_P)
    equal_n = bool((a.n_P == b.n_P).all())
    k = min(first.top, second.top)
    names = [
        name
        for name in dict.fromkeys(
            [
                *("pass@1", f"pass@{k}"),
                *((f"ucc@{k}", "ucr") if equal_n else ()),
                *("entropy", "length", "truncated"),
            ]
        )
        if name in first.measures.names
        and name in second.measures.names
        and not (name == "length" and first.rows.unit != second.rows.unit)
    ]
    comparison = compare.difference(
        first.measures.only(names, same), second.measures.only(names, same), ""
    )
    a_P, b_P = (t.correct_P / t.n_P for t in (drawn(a, n_P), drawn(b, n_P)))
    return SubjectPair(
        first,
        second,
        same,
        comparison,
        _buckets(a_P, b_P),
        [p for p, was, now in zip(same, a_P, b_P, strict=True) if was == 0 < now],
        [p for p, was, now in zip(same, a_P, b_P, strict=True) if was > 0 == now],
        list(_notes(first, second, matched)),
    )


def _notes(first: Subject, second: Subject, matched: pairing.Match) -> Iterator[str]:
    """Notes on a comparison: how the two differ, and which prompts it leaves out."""
    rows = [list(side) for side in zip(*matched.rows, strict=True)]
    subjects = (first, second)
    n_P, other_P = (s.tallied.n_P[r] for s, r in zip(subjects, rows, strict=True))
    names = (first.name, second.name)
    for text in conditions.differences(
        names, first.conditions, second.conditions, (n_P, other_P), AT_EQUAL_N
    ):
        if not first.is_step or not text.startswith("the steps"):  # both of one run, as intended
            yield _sentence(text)
    if matched.known["text"] < len(matched.rows) or matched.others:
        apart = "".join(f"; {text}" for text in pairing.differing(matched))
        paired = f"prompts of {first.name} and {second.name} are paired by {matched.described()}"
        yield _sentence(paired + apart)
    missing = (
        pairing.left_out(subject.name, subject.tallied.prompt_id, mine)
        for subject, mine in zip(subjects, rows, strict=True)
    )
    if texts := list(filter(None, missing)):
        yield f"Left out because not both have them: {'; '.join(texts)}."


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _buckets(a_P: np.ndarray, b_P: np.ndarray) -> list[DifficultyBucket]:
    """Flips by difficulty: the share of right completions in the first, from above to at most."""
    buckets, low = [], -1.0
    for name, high in BUCKETS:
        here_P = (a_P > low) & (a_P <= high)
        before, after = _mean(a_P[here_P]), _mean(b_P[here_P])
        gained, lost = here_P & (a_P == 0) & (b_P > 0), here_P & (a_P > 0) & (b_P == 0)
        count, up, down = (int(flags.sum()) for flags in (here_P, gained, lost))
        buckets.append(DifficultyBucket(name, high, count, before, after, up, down))
        low = high
    return buckets


def _mean(share_P: np.ndarray) -> Cell | None:
    if not len(share_P):
        return None
    return Measures([], ["share"], share_P[:, None]).intervals()["share"]

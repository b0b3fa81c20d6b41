"""Pairs of subjects: differences over the prompts that both have, gains and losses.

Shapes: P prompts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rlvr_cli.evaluation import compare
from rlvr_cli.evaluation.compare import Cell, Comparison
from rlvr_cli.evaluation.pass_at_k import Measures
from rlvr_cli.report.subject import Subject
from rlvr_cli.storage.lineage import Lineage

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
    note: str

    @property
    def rows(self) -> dict[str, list[Cell]]:
        """For each metric the first, the second, and the difference."""
        return self.comparison.rows


def judged(pairs: Sequence[SubjectPair | str]) -> list[SubjectPair | str]:
    """The pairs with the verdicts that hold for all of them together."""
    made = [pair for pair in pairs if isinstance(pair, SubjectPair)]
    verdicts = iter(compare.judged([pair.comparison for pair in made]))
    return [p if isinstance(p, str) else replace(p, comparison=next(verdicts)) for p in pairs]


def pair(first: Subject, second: Subject) -> SubjectPair | str:
    """The comparison, or why there is none."""
    same, other = _same_prompts(first, second)
    if not same:
        return (
            f"{first.name} and {second.name} have no prompt in common and are not compared."
            if not other
            else f"{first.name} and {second.name} use the same names for other prompts and are not "
            "compared."
        )
    k = min(first.top, second.top)
    names = [
        name
        for name in dict.fromkeys(
            ["pass@1", f"pass@{k}", f"ucc@{k}", "ucr", "entropy", "length", "truncated"]
        )
        if name in first.measures.names
        and name in second.measures.names
        and not (name == "length" and first.rows.unit != second.rows.unit)
    ]
    comparison = compare.difference(
        _only(first.measures, names, same), _only(second.measures, names, same), ""
    )
    a_P, b_P = _shares(first, same), _shares(second, same)
    left = len(first.tallied.prompt_id) + len(second.tallied.prompt_id) - 2 * len(same)
    note = f"Left out because only one of the two has them: {left:,} prompts." if left else ""
    return SubjectPair(
        first,
        second,
        same,
        comparison,
        _buckets(a_P, b_P),
        [p for p, a, b in zip(same, a_P, b_P, strict=True) if a == 0 < b],
        [p for p, a, b in zip(same, a_P, b_P, strict=True) if a > 0 == b],
        note,
    )


def _same_prompts(first: Subject, second: Subject) -> tuple[list[str], int]:
    """The ids that both have for the same prompt, and how many they have for different ones."""
    in_second = set(second.tallied.prompt_id)
    shared = [p for p in first.tallied.prompt_id if p in in_second]
    a, b = first.lineage.prompts, second.lineage.prompts
    if a is None or b is None or a.digest == b.digest:
        return shared, 0
    text_a, text_b = _texts(first.lineage), _texts(second.lineage)
    same = [p for p in shared if text_a.get(p) == text_b.get(p)]
    return same, len(shared) - len(same)


def _texts(lineage: Lineage) -> dict[str, tuple[str, str | None]]:
    """The messages and the gold answer of each prompt."""
    assert lineage.prompts is not None
    return {
        prompt_id: (messages, answer)
        for table in lineage.prompts.parts()
        for prompt_id, messages, answer in zip(
            *(table[name].to_pylist() for name in ("prompt_id", "messages", "answer")), strict=True
        )
    }


def _only(measures: Measures, names: list[str], prompts: list[str]) -> Measures:
    row_of = {prompt_id: row for row, prompt_id in enumerate(measures.prompt_id)}
    columns = [measures.names.index(name) for name in names]
    value_PM = measures.value_PM[[row_of[p] for p in prompts]][:, columns]
    return Measures(prompts, names, value_PM)


def _shares(subject: Subject, prompts: list[str]) -> np.ndarray:
    return _only(subject.measures, ["avg@k"], prompts).value_PM[:, 0]


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

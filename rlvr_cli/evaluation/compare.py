"""The stage that compares runs, scores directories or files over the same prompts.

Shapes: P prompts, K values of k.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rlvr_cli.config import Columns
from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.evaluation import alike, conditions, enough, pairing, pass_at_k, verdicts
from rlvr_cli.evaluation.alike import Alike
from rlvr_cli.evaluation.load import is_directory
from rlvr_cli.evaluation.measures import Measures, as_cells, finite, joined, over_files
from rlvr_cli.evaluation.metrics import contrast, intervals
from rlvr_cli.evaluation.sides import Side, load, paired
from rlvr_cli.evaluation.tallies import Tally, drawn
from rlvr_cli.interop.names import refuse_columns
from rlvr_cli.storage import run_folders
from rlvr_cli.terminal import plural

MOST_KS = 4096
AT_EQUAL_N = (
    "figures that depend on it use equally many on both sides, drawn at random: UCC, clusters, "
    "UCR, flips, gained and lost"
)

Cell = list[float | None]  # mean, low, high


@dataclass(frozen=True)
class Comparison:
    """For each metric its value in the first and in the second, and second - first.

    `method` computed the interval of the difference, `chance` is the p-value of no difference, and
    `verdict` is its word, with Holm's correction over the comparisons made together.
    """

    title: str
    rows: dict[str, list[Cell]]
    method: dict[str, str]
    chance: dict[str, float | None]
    verdict: dict[str, str] = field(default_factory=dict)
    comparisons: int = 1

    def as_json(self) -> dict[str, Any]:
        names = ("first", "second", "difference")
        metrics = {
            name: dict(zip(names, cells, strict=True))
            | {"interval": self.method[name], "p": self.chance[name], "verdict": self.verdict[name]}
            for name, cells in self.rows.items()
        }
        return {"title": self.title, "comparisons": self.comparisons, "metrics": metrics}


def judged(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons of one run with others, with the verdicts that hold for all of them."""
    means = [{name: cells[-1][0] for name, cells in one.rows.items()} for one in comparisons]
    words = verdicts.of_comparisons(means, [one.chance for one in comparisons])
    return [
        replace(one, verdict=word, comparisons=len(comparisons))
        for one, word in zip(comparisons, words, strict=True)
    ]


def over_common_prompts(a: Measures, b: Measures) -> tuple[Measures, Measures]:
    """Both, over the prompts that both have, in the order of the first."""
    in_b = set(b.prompt_id)
    common = [prompt_id for prompt_id in a.prompt_id if prompt_id in in_b]
    return a.only(a.names, common), b.only(b.names, common)


def difference(a: Measures, b: Measures, title: str) -> Comparison:
    """The metrics that both have, with the interval and the verdict of b - a over prompts."""
    if sorted(a.prompt_id) != sorted(b.prompt_id):
        only = sorted(set(a.prompt_id) ^ set(b.prompt_id))
        raise DataError(
            f"the two do not have the same prompts: `{only[0]}` is in one of them only",
            "compare runs over the same held-out prompts",
        )
    names = [name for name in a.names if name in b.names]
    value_a, value_b = (side.only(names, a.prompt_id).value_PM for side in (a, b))
    estimate = intervals.of_differences(names, value_b, value_a)
    first, second, deltas = a.intervals(), b.intervals(), as_cells(estimate)
    rows = {name: [first[name], second[name], deltas[m]] for m, name in enumerate(names)}
    method = dict(zip(names, estimate.method_M, strict=True))
    chance = dict(zip(names, map(finite, estimate.chance_M.tolist()), strict=True))
    return judged([Comparison(title, rows, method, chance)])[0]


@dataclass(frozen=True)
class Contrast:
    """What changed from the first to the second, besides the metrics."""

    first: Side
    second: Side
    metrics: Comparison
    buckets: list[contrast.FlipBucket]
    gained: list[str]  # prompts without a correct completion before, with one now
    lost: list[str]
    crossings: list[int]  # the k at which the order of Pass@k changes
    ahead: str  # at k = 1: first, second or neither
    unlike: list[str]  # what sets the two apart besides their policies
    alike: Alike | None = None  # what they share of completions

    @property
    def shared(self) -> str:
        """What they share of completions, in words; empty where they share nothing."""
        names = (f"`{self.first.path}`", f"`{self.second.path}`")
        return self.alike.described(names) if self.alike else ""

    @property
    def equal(self) -> list[str]:
        """Why intervals around 0 have a width where no prompt differs; empty where one does."""
        a, b = self.first.tally, self.second.tally
        if not np.array_equal(a.correct_P * b.n_P, b.correct_P * a.n_P):
            return []
        return [
            f"both have the same success rate in all {plural.of(len(a.n_P), 'prompt')}; an "
            "interval around 0 still has a width, because other prompts could differ"
        ]

    @property
    def headline(self) -> str:
        """What is compared, with the steps of runs."""
        return f"{self.metrics.title}: first {self.first.title}, second {self.second.title}"

    def as_json(self) -> dict[str, Any]:
        buckets = [{**asdict(b), "change": finite(b.change)} for b in self.buckets]
        return {
            **self.metrics.as_json(),
            "first": str(self.first.path),
            "second": str(self.second.path),
            "steps": [self.first.conditions.step, self.second.conditions.step],
            "flips": buckets,
            "gained": self.gained,
            "lost": self.lost,
            "crossings": self.crossings,
            "ahead": self.ahead,
            "unlike": self.unlike,
            "alike": self.alike and self.alike.as_json(),
        }


def compare(first: Path, second: Path) -> Comparison:
    """The metrics that both have, and their paired differences."""
    return contrasts([first, second])[1][0].metrics


def contrasts(
    paths: Sequence[Path],
    *,
    equality: str | None = None,
    columns: Columns | None = None,
    ks: Sequence[int] = (),
    min_n: int = 1,
    pair_by: Sequence[str] = pairing.FIELDS,
) -> tuple[list[Side], list[Contrast], list[str]]:
    """The sides with their common prompts in one order, each after the first against the first.

    Last come the remarks: by what prompts were paired, and what was left out. `equality` decides
    which wrong answers are equal: see `voting.equality_judge`, and `columns` how
    files of other tools are read. `ks` default to powers of two.
    """
    if len(paths) < 2:
        raise UsageError(
            f"compare takes two arguments or more, {len(paths)} given",
            "name two runs, scores directories or files: `rlvr compare A B`",
        )
    if all(path.is_dir() and (run_folders.is_run(path) or is_directory(path)) for path in paths):
        refuse_columns(paths[0], columns)
    loaded = [load(path, equality, columns, by=pair_by, min_n=min_n) for path in paths]
    sides, remarks = paired(loaded, pair_by)
    enough.require_ks(np.min([side.tally.n_P for side in sides], axis=0), ks)
    remarks = [*_repeated(loaded), *remarks]
    remarks += [text for side in loaded if (text := enough.short(side.tally, str(side.path)))]
    contrasts = [_contrast(sides[0], other, ks) for other in sides[1:]]
    metrics = judged([one.metrics for one in contrasts])
    contrasts = [replace(one, metrics=own) for one, own in zip(contrasts, metrics, strict=True)]
    return sides, contrasts, remarks


def _repeated(sides: Sequence[Side]) -> list[str]:
    """What to say of each side that was given more than once."""
    names = Counter(side.name for side in sides)
    return [f"`{name}` is given twice: it is compared with itself"
            for name, times in names.items() if times > 1]  # fmt: skip


def summary(
    sides: Sequence[Side], contrasts: Sequence[Contrast], remarks: list[str]
) -> dict[str, Any]:
    """What `--json` prints: the first contrast, with the others and what holds for all."""
    first, *others = [one.as_json() for one in contrasts]
    return {
        **first,
        "others": others,
        "frontier": frontier(sides),
        "remarks": remarks,
        "majorities": [side.majority for side in sides],
        "read": [side.tally.read for side in sides],
    }


def _contrast(first: Side, second: Side, ks: Sequence[int]) -> Contrast:
    largest = min(first.smallest, second.smallest)
    default = [1] if first.tokens and second.tokens else pass_at_k.default_ks(first.tally)
    chosen_ks = sorted(ks or {k for k in [*default, largest] if k <= largest})
    n_P = np.minimum(first.tally.n_P, second.tally.n_P)
    a, b = drawn(first.tally, n_P), drawn(second.tally, n_P)
    sources = first.tally if first.tally.read.get("apart") else second.tally
    before, after = (
        over_files(sources, _measures(side, equal, chosen_ks, ks))
        for side, equal in ((first, a), (second, b))
    )
    title = (
        f"{plural.of(len(before.prompt_id), 'prompt')}, Pass@k up to k = "
        f"{chosen_ks[-1]}, mean [95% interval]"
    )
    curves = [
        contrast.curve(side.tally.n_P, side.tally.correct_P, min(largest, MOST_KS))
        for side in (first, second)
    ]
    at_1 = float((curves[1] - curves[0])[:, 0].mean())
    names = (f"`{first.path}`", f"`{second.path}`")
    return Contrast(
        first,
        second,
        difference(before, after, title),
        contrast.flips(a.n_P, a.correct_P, b.n_P, b.correct_P),
        _solved_only_by(b, a),
        _solved_only_by(a, b),
        contrast.crossings(*curves),
        "neither" if abs(at_1) < 1e-12 else "second" if at_1 > 0 else "first",
        list(
            conditions.differences(
                names,
                first.conditions,
                second.conditions,
                (first.tally.n_P, second.tally.n_P),
                AT_EQUAL_N,
            )
        ),
        alike.of(first.scores, second.scores),
    )


def _measures(side: Side, equal: Tally, ks: list[int], given: Sequence[int]) -> Measures:
    """Pass@k and Maj@k of all completions, what depends on n of as many as the other side has."""
    measures = [pass_at_k.outcome_measures(side.tally, ks)]
    if equal.texts is not None:
        measures.append(pass_at_k.ucc_measures(equal, ks if given else ks[-1:]))
    if side.tokens:
        measures.append(side.tokens)
    return joined(*measures)


def _solved_only_by(a: Tally, b: Tally) -> list[str]:
    here = np.flatnonzero((a.correct_P > 0) & (b.correct_P == 0))
    return [a.prompt_id[p] for p in here]


def frontier(sides: Sequence[Side]) -> list[tuple[str, float, float, bool]]:
    """Each side's path, Pass@1, Pass@K at the smallest n of all, and whether none dominates it."""
    largest = min(side.smallest for side in sides)
    points = [pass_at_k.pass_measures(s.tally, [1, largest]).value_PM[:, :2].mean(0) for s in sides]
    undominated = contrast.frontier(points)
    return [
        (side.name, float(at[0]), float(at[1]), on)
        for side, at, on in zip(sides, points, undominated, strict=True)
    ]


def curves(sides: Sequence[Side]) -> dict[str, list[tuple[int, float]]]:
    """The mean Pass@k of each side at about 40 values of k, up to the smallest n of all."""
    smallest = min(sides, key=lambda side: side.smallest)
    ks = pass_at_k.curve_ks(smallest.tally)
    curve_of = {}
    for side in sides:
        mean_K = pass_at_k.pass_measures(side.tally, ks).value_PM[:, : len(ks)].mean(axis=0)
        curve_of[side.name] = list(zip(ks, mean_K.tolist(), strict=True))
    return curve_of

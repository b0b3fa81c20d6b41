"""The measurements of one set of scored completions.

Shapes: P prompts, N completions, K values of k, M metrics.
"""

import shlex
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation import conditions, enough, pairing, pass_at_k
from rlvr_cli.evaluation.conditions import Conditions
from rlvr_cli.evaluation.measures import Measures, joined
from rlvr_cli.evaluation.metrics import ucc
from rlvr_cli.evaluation.pairing import Prompts
from rlvr_cli.evaluation.tallies import Tally, with_verdicts
from rlvr_cli.report import rows as reading
from rlvr_cli.report.rows import ScoredRows
from rlvr_cli.storage.lineage import Lineage
from rlvr_cli.storage.shards import Shards
from rlvr_cli.terminal import plural

ALL_KS = 32  # up to this many completions every k is drawn, beyond it about this many


@dataclass(frozen=True)
class Subject:
    """A set of scored completions, its metrics a prompt, and their means with intervals."""

    name: str
    lineage: Lineage
    scores: Shards
    tallied: Tally
    ks: list[int]
    measures: Measures
    intervals: dict[str, list[float | None]]
    rows: ScoredRows
    prompts: Prompts
    conditions: Conditions

    @property
    def title(self) -> str:
        """Its name, and the step of a run that the name does not say."""
        step = self.conditions.step
        return self.name if step is None or self.is_step else f"{self.name} at step {step}"

    @property
    def is_step(self) -> bool:
        """Whether it is named as a step of the run that the report is of."""
        return self.name == f"step {self.conditions.step}"

    @property
    def top(self) -> int:
        """The largest k."""
        return self.ks[-1]


def measure(
    name: str,
    lineage: Lineage,
    *,
    threshold: float,
    min_n: int = 1,
    on_part: Callable[[int, str], None] = lambda index, state: None,
) -> Subject:
    """Pass@k, UCC@k and the health of the completions, of each prompt.

    Prompts with fewer than `min_n` verdicts are left out; or else, where the rollouts say how many
    completions a prompt was to have, those with fewer, as train does; else the smallest number
    bounds k.
    """
    scores = lineage.scores
    if scores is None:
        raise DataError(f"`{lineage.rollouts.path}` has no scores", "score it with `rlvr score`")
    tallied = pass_at_k.of_scores(scores)
    if tallied.read.get("apart"):
        inputs = lineage.rollouts.inputs
        each = [shlex.quote(str(one.path.parent / "scores")) for one in inputs]
        raise DataError(
            f"the inputs of `{scores.path}` have prompts in common, and a report takes all "
            "completions of a prompt for those of one policy",
            f"score each input with `rlvr score`, and `rlvr report {' '.join(each)}`",
        )
    if min_n > 1:
        tallied = enough.with_at_least(tallied, min_n, scores.path)
    elif expected := dict(lineage.rollouts.params).get("num_generations"):
        complete = with_verdicts(tallied, int(expected))
        tallied = complete if complete.prompt_id else tallied
    pass_at_k.require_measurable(tallied)
    ks = spaced_ks(int(tallied.n_P.min()))
    rows = reading.read(lineage, threshold=threshold, on_part=on_part)
    measures = joined(
        pass_at_k.pass_measures(tallied, ks), _unique(tallied, rows, ks), _health(tallied, rows)
    )
    return Subject(
        name,
        lineage,
        scores,
        tallied,
        ks,
        measures,
        measures.intervals(),
        rows,
        pairing.of_scores(scores, tallied),
        conditions.of_scores(scores),
    )


def spaced_ks(n: int) -> list[int]:
    """Every k up to n, or about ALL_KS of them at even ratios, the powers of two among them."""
    if n <= ALL_KS:
        return list(range(1, n + 1))
    spaced = np.geomspace(1, n, ALL_KS).round().astype(int).tolist()
    return sorted({*spaced, *(2**i for i in range(n.bit_length()))})


def _unique(tallied: Tally, rows: ScoredRows, ks: list[int]) -> Measures:
    """UCC@k for every k, the number of clusters and UCR, from the clusters that were read."""
    values = []
    known: dict[tuple[int, ...], list[float]] = {}  # many prompts have clusters of the same sizes
    for prompt_id, n in zip(tallied.prompt_id, tallied.n_P.tolist(), strict=True):
        sizes = np.bincount(rows.clusters.get(prompt_id, np.zeros(0, dtype=np.int64)))
        key = (n, *sorted(sizes.tolist()))
        if key not in known:
            known[key] = [*ucc.ucc_at_k(n, sizes, ks), len(sizes), ucc.ucr(n, sizes)]
        values.append(known[key])
    return Measures(
        tallied.prompt_id, [*(f"ucc@{k}" for k in ks), "clusters", "ucr"], np.array(values)
    )


def _health(tallied: Tally, rows: ScoredRows) -> Measures:
    """Mean length, share cut at the token limit, and entropy where it is known."""
    row_of = {prompt_id: p for p, prompt_id in enumerate(tallied.prompt_id)}
    code_N = np.array([row_of.get(prompt_id, -1) for prompt_id in rows.prompt_id])
    known_N = code_N >= 0
    prompts = len(row_of)

    def mean(value_N: np.ndarray) -> np.ndarray:
        return np.bincount(code_N[known_N], value_N[known_N], minlength=prompts) / np.bincount(
            code_N[known_N], minlength=prompts
        )

    columns = {"length": mean(rows.length_N)}
    if not rows.unknown_ends:
        columns["truncated"] = mean(rows.cut_N)
    if all(rows.entropy.get(p, (0, 0))[1] for p in tallied.prompt_id):
        sums = np.array([rows.entropy[p] for p in tallied.prompt_id])
        columns["entropy"] = sums[:, 0] / sums[:, 1]
    return Measures(tallied.prompt_id, list(columns), np.column_stack(list(columns.values())))


def notes(subject: Subject) -> list[str]:
    """What a reader must know before trusting the figures."""
    remarks = []
    tallied, rows, lineage = subject.tallied, subject.rows, subject.lineage
    if excluded := rows.excluded.total():
        listed = ", ".join(f"{n} {status}" for status, n in sorted(rows.excluded.items()))
        remarks.append(
            f"Excluded because they have no verdict: {excluded:,} of {len(rows.verdict_N):,} "
            f"completions, by status {listed}."
        )
    if tallied.left_out:
        few = ", ".join(tallied.left_out[:5]) + (" …" if len(tallied.left_out) > 5 else "")
        all_of_them = len(tallied.left_out) + len(tallied.prompt_id)
        remarks.append(
            f"Left out because they have too few verdicts: {len(tallied.left_out):,} of "
            f"{plural.of(all_of_them, 'prompt')}, {few}."
        )
    low, high = int(tallied.n_P.min()), int(tallied.n_P.max())
    if low != high:
        fewer = int((tallied.n_P < high).sum())
        remarks.append(
            f"Prompts have {low} to {high} completions, so k ends at {low}; --min-n {high} leaves "
            f"out the {fewer:,} with fewer."
        )
    if len(tallied.prompt_id) < 10:
        remarks.append(
            "One prompt has no interval over prompts."
            if len(tallied.prompt_id) == 1
            else f"{len(tallied.prompt_id)} prompts are few: intervals over prompts are wide, "
            "and metrics without bounds have none."
        )
    if lineage.prompts is None:
        remarks.append(
            "The prompts directory of the rollouts is missing: prompt texts are not shown."
        )
    if rows.unit == "characters":
        remarks.append(
            "The completions came as text: lengths are in characters, there is no entropy."
        )
    elif "entropy" not in subject.measures.names:
        path = lineage.rollouts.as_argument
        remarks.append(f"There is no entropy; rlvr logprob {path} computes it.")
    if columns := (read := subject.scores.summary.get("read", {})).get("correct"):
        above = "" if read["correct_above"] is None else f" above {read['correct_above']:g}"
        named = ", ".join(f"`{name}`" for name in columns)
        remarks.append(f"What is correct is what the imported files say: {named}{above}.")
    return remarks

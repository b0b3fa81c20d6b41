"""The stages that measure stored completions: Pass@k, Avg@k, UCC@k, UCR.

Shapes: P prompts, K values of k, M metrics.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rlvr_cli import foreign, schema
from rlvr_cli.errors import DataError
from rlvr_cli.fill import OnPart, fill_whole
from rlvr_cli.metrics import bootstrap, passk, ucc
from rlvr_cli.shards import MANIFEST, Plan, Shards
from rlvr_cli.stages import common
from rlvr_cli.stages.prompts import content_hash

TOKEN_COLUMNS = ("entropy", "old_logp", "ref_logp")


@dataclass(frozen=True)
class Tally:
    """What is known of each prompt's completions; those without a verdict are excluded.

    A prompt without any verdict is left out of all means, and named.
    """

    prompt_id: list[str]
    n_P: np.ndarray
    correct_P: np.ndarray
    excluded_P: np.ndarray
    texts: list[list[str]] | None  # of the correct completions
    left_out: list[str]  # the prompts without any verdict


@dataclass(frozen=True)
class Measures:
    """Named metrics of each prompt."""

    prompt_id: list[str]
    names: list[str]
    value_PM: np.ndarray

    def intervals(self) -> dict[str, list[float | None]]:
        """The mean over prompts of each metric and its 95% interval, None where it has none."""
        made = bootstrap.mean_interval(self.value_PM)
        stacked = np.stack([made.mean_M, made.low_M, made.high_M], 1).tolist()
        return {name: list(map(finite, row)) for name, row in zip(self.names, stacked, strict=True)}


def finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def tally(
    path: Path,
    *,
    texts: bool = False,
    id_column: str | None = None,
    correct_column: str | None = None,
    completion_column: str | None = None,
) -> tuple[Tally, Shards | None]:
    """The tally of a scores directory or of a file that another tool wrote."""
    if (path / MANIFEST).exists() or list(path.glob("_partial*.json")):
        scores = Shards.open(path, "scores")
        return of_scores(scores, texts=texts), scores
    found = foreign.generations(
        path,
        id_column=id_column,
        correct_column=correct_column,
        completion_column=completion_column,
    )
    if not found.has_verdicts:
        raise DataError(
            f"`{path}` says of no completion whether it is correct; "
            f"it has {', '.join(map(str, found.rows[0]))}",
            "name the column with --correct-column, or score it: rlvr import, then rlvr score",
        )
    if not any(c is not None for c in found.correct) and any(r is not None for r in found.reward):
        raise DataError(
            f"`{path}` has graded rewards, which do not say what is correct",
            "name a column that does with --correct-column",
        )
    if texts and not found.has_completions:
        raise DataError(
            f"`{path}` has no completions; it has {', '.join(map(str, found.rows[0]))}",
            "name their column with --completion-column",
        )
    return _tally(found.prompt_id, found.correct, found.completion if texts else None), None


def of_scores(scores: Shards, *, texts: bool = False) -> Tally:
    sources = [scores.parent("rollouts"), scores] if texts else [scores]
    prompt_ids: list[str] = []
    correct: list[bool | None] = []
    completions: list[str] = []
    for index in range(len(scores)):
        columns = common.aligned(index, *sources)
        prompt_ids += columns["prompt_id"].to_pylist()
        correct += columns["correct"].to_pylist()
        completions += columns["completion"].to_pylist() if texts else []
    return _tally(prompt_ids, correct, completions if texts else None)


def _tally(
    prompt_ids: list[str], correct: list[bool | None], completions: Sequence[str | None] | None
) -> Tally:
    codes_N = common.group_codes(prompt_ids)
    names = list(dict.fromkeys(prompt_ids))
    known_N = np.array([c is not None for c in correct], dtype=bool)
    right_N = np.array([bool(c) for c in correct], dtype=bool)
    n_P = np.bincount(codes_N[known_N], minlength=len(names))
    measured = np.flatnonzero(n_P).tolist()
    texts: list[list[str]] = [[] for _ in names]
    for row in np.flatnonzero(right_N).tolist() if completions is not None else ():
        assert completions is not None
        texts[codes_N[row]].append(completions[row] or "")
    return Tally(
        [names[p] for p in measured],
        n_P[measured],
        np.bincount(codes_N[right_N], minlength=len(names))[measured],
        np.bincount(codes_N[~known_N], minlength=len(names))[measured],
        None if completions is None else [texts[p] for p in measured],
        [name for name, n in zip(names, n_P, strict=True) if n == 0],
    )


def default_ks(tallied: Tally) -> list[int]:
    """The powers of two up to the smallest n, and that n."""
    smallest = int(tallied.n_P.min()) if len(tallied.n_P) else 0
    return sorted(
        {2**i for i in range(smallest.bit_length()) if 2**i <= smallest} | {smallest} - {0}
    )


def pass_measures(tallied: Tally, ks: Sequence[int]) -> Measures:
    """Pass@k for every k, exactly, and Avg@k = c / n (its k is each prompt's own n)."""
    require_measurable(tallied)
    table_PK = passk.pass_at_k_table(tallied.n_P, tallied.correct_P, ks)
    average_P = passk.avg_at_k(tallied.n_P, tallied.correct_P)
    names = [*(f"pass@{k}" for k in ks), "avg@k"]
    return Measures(tallied.prompt_id, names, np.column_stack([table_PK, average_P]))


def ucc_measures(
    tallied: Tally, ks: Sequence[int], *, threshold: float = 0.8, linkage: ucc.Linkage = "single"
) -> Measures:
    """UCC@k for every k, the number of clusters and UCR = clusters / n."""
    require_measurable(tallied)
    rows = []
    for n, texts in zip(tallied.n_P.tolist(), tallied.texts or [], strict=True):
        sizes = np.bincount(ucc.cluster(texts, threshold=threshold, linkage=linkage))
        rows.append([*ucc.ucc_at_k(n, sizes, ks), len(sizes), ucc.ucr(n, sizes)])
    names = [*(f"ucc@{k}" for k in ks), "clusters", "ucr"]
    return Measures(tallied.prompt_id, names, np.array(rows))


def token_measures(logprobs: Shards, prompt_ids: list[str]) -> Measures:
    """The mean entropy of each prompt's tokens, and the mean of old_logp - ref_logp (k1)."""
    row_of = {prompt_id: row for row, prompt_id in enumerate(prompt_ids)}
    sums_PM = np.zeros((len(prompt_ids), 3))
    for table in logprobs.parts():
        rows = zip(*(table[name] for name in ("prompt_id", *TOKEN_COLUMNS)), strict=True)
        for prompt_id, entropy, old_logp, ref_logp in rows:
            if (row := row_of.get(prompt_id.as_py())) is not None:
                entropy_T, old_T, ref_T = (
                    np.asarray(value.values, dtype=np.float64)
                    for value in (entropy, old_logp, ref_logp)
                )
                sums_PM[row] += entropy_T.sum(), (old_T - ref_T).sum(), len(entropy_T)
    value_PM = sums_PM[:, :2] / np.maximum(sums_PM[:, 2:], 1)
    return Measures(prompt_ids, ["entropy", "kl"], value_PM)


def run_measures(evaluation: Path) -> Measures:
    """Pass@1, Pass@n, UCC@n, the completions' entropy and divergence from the start.

    Of an evaluation folder of a run; n is the number of completions a prompt, and prompts with
    fewer verdicts are left out. Entropy is the mean over a prompt's tokens, kl their mean log
    ratio to the policy the run started from (k1).
    """
    scores = Shards.open(evaluation / "scores", "scores")
    n = int(scores.parent("rollouts").params["num_generations"])
    tallied = with_verdicts(of_scores(scores, texts=True), n)
    passed = pass_measures(tallied, sorted({1, n}))
    unique = ucc_measures(tallied, [n])
    logprobs = Shards.open(evaluation / "logprobs", "logprobs")
    return joined(passed, unique, token_measures(logprobs, tallied.prompt_id))


def with_verdicts(tallied: Tally, n: int) -> Tally:
    """The prompts that have n completions with a verdict; the others are left out."""
    enough = np.flatnonzero(tallied.n_P >= n).tolist()
    fewer = [name for name, have in zip(tallied.prompt_id, tallied.n_P, strict=True) if have < n]
    return Tally(
        [tallied.prompt_id[p] for p in enough],
        tallied.n_P[enough],
        tallied.correct_P[enough],
        tallied.excluded_P[enough],
        None if tallied.texts is None else [tallied.texts[p] for p in enough],
        tallied.left_out + fewer,
    )


def joined(*measures: Measures) -> Measures:
    """Several measures of the same prompts as one."""
    first = measures[0]
    assert all(m.prompt_id == first.prompt_id for m in measures)
    names = [name for m in measures for name in m.names]
    return Measures(first.prompt_id, names, np.column_stack([m.value_PM for m in measures]))


def require_measurable(tallied: Tally) -> None:
    if not tallied.prompt_id:
        raise DataError(
            "no prompt has a completion with a verdict", "look at the status column of the scores"
        )


def write(
    out: Path,
    stage: str,
    scores: Shards | None,
    tallied: Tally,
    measures: Measures,
    params: dict,
    on_part: OnPart,
) -> Shards:
    """A metrics directory: one row a prompt, the means and intervals in the summary."""
    columns: dict[str, Any] = {
        "prompt_id": tallied.prompt_id,
        "source": [None] * len(tallied.prompt_id),
        "n": tallied.n_P,
        "correct": tallied.correct_P,
        "excluded": tallied.excluded_P,
    }
    columns |= {name: measures.value_PM[:, m] for m, name in enumerate(measures.names)}
    counts = [tallied.n_P.tolist(), tallied.correct_P.tolist(), measures.value_PM.tolist()]
    params = params | {"content": content_hash(tallied.prompt_id, *counts)}
    extra = tuple(measures.names)
    table = pa.table(columns).cast(schema.schema("metrics", extra))
    return fill_whole(
        out,
        Plan("metrics", stage, params, {"scores": scores} if scores else {}, 1, extra=extra),
        lambda _: table,
        summarise=lambda _: summary(tallied, measures),
        on_part=on_part,
    )


def summary(tallied: Tally, measures: Measures) -> dict[str, Any]:
    """Counts, and [mean, low, high] of each metric."""
    return {
        "prompts": len(tallied.prompt_id),
        "n": [int(tallied.n_P.min()), int(tallied.n_P.max())],
        "excluded": int(tallied.excluded_P.sum()),
        "left_out": tallied.left_out,
        "interval": "95%, expanded percentile bootstrap over prompts",
        "metrics": measures.intervals(),
    }

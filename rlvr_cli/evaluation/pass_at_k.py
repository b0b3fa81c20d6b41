"""The stages that measure stored completions: Pass@k, Maj@k, Avg@k, UCC@k, UCR.

Shapes: P prompts, K values of k, M metrics.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation import clustering, earlier, enough
from rlvr_cli.evaluation.enough import default_ks as default_ks
from rlvr_cli.evaluation.load import of_scores as of_scores, tally as tally
from rlvr_cli.evaluation.metrics import answers, intervals, passk, ucc
from rlvr_cli.evaluation.metrics.clusters import Clusters
from rlvr_cli.evaluation.tallies import Tally as Tally, with_verdicts as with_verdicts
from rlvr_cli.stages.prompts import content_hash
from rlvr_cli.storage import schema
from rlvr_cli.storage.plan import Plan
from rlvr_cli.storage.shards import Shards
from rlvr_cli.storage.writer import OnPart, write_all_shards
from rlvr_cli.verification.scoring import rewards

PASS_ESTIMATOR = "1 - C(n-c, k) / C(n, k), unbiased, exact (arXiv:2107.03374, eq. 1)"
UCC_ESTIMATOR = "sum over clusters of 1 - C(n-s, k) / C(n, k), unbiased, exact (QUATRO, eq. 20)"
TOKEN_COLUMNS = ("entropy", "old_logp", "ref_logp")


@dataclass(frozen=True)
class Measures:
    """Named metrics of each prompt."""

    prompt_id: list[str]
    names: list[str]
    value_PM: np.ndarray

    def intervals(self) -> dict[str, list[float | None]]:
        """The mean over prompts of each metric and its 95% interval, None where it has none."""
        by_name: dict[str, list[float | None]] = self.estimates()["metrics"]
        return by_name

    def estimates(self) -> dict[str, dict[str, Any]]:
        """The `intervals` (metrics), their methods, and each mean's standard error."""
        estimate = intervals.of_means(self.names, self.value_PM)
        errors = map(finite, estimate.error_M.tolist())
        return {
            "metrics": dict(zip(self.names, as_cells(estimate), strict=True)),
            "standard_error": dict(zip(self.names, errors, strict=True)),
            "interval": dict(zip(self.names, estimate.method_M, strict=True)),
        }

    def of(self, rows: list[int]) -> "Measures":
        """Those of some of the prompts, by their place."""
        return Measures([self.prompt_id[p] for p in rows], self.names, self.value_PM[rows])

    def only(self, names: Sequence[str], prompt_ids: Sequence[str]) -> "Measures":
        """Some of the metrics, of some of the prompts by their names, in these orders."""
        row_of = {prompt_id: row for row, prompt_id in enumerate(self.prompt_id)}
        columns = [self.names.index(name) for name in names]
        value_PM = self.value_PM[[row_of[p] for p in prompt_ids]][:, columns]
        return Measures(list(prompt_ids), list(names), value_PM)


def finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def as_cells(estimate: intervals.Intervals) -> list[list[float | None]]:
    """[mean, low, high] of each metric, None where there is none."""
    rows = np.stack([estimate.mean_M, estimate.low_M, estimate.high_M], 1).tolist()
    return [list(map(finite, row)) for row in rows]


def pass_measures(tallied: Tally, ks: Sequence[int]) -> Measures:
    """Pass@k for every k, exactly, and Avg@k = c / n (its k is each prompt's own n)."""
    require_measurable(tallied)
    table_PK = passk.pass_at_k_table(tallied.n_P, tallied.correct_P, ks)
    average_P = passk.avg_at_k(tallied.n_P, tallied.correct_P)
    names = [*(f"pass@{k}" for k in ks), "avg@k"]
    return Measures(tallied.prompt_id, names, np.column_stack([table_PK, average_P]))


def pass_curve(tallied: Tally) -> dict[str, list[float | None]]:
    """The mean and interval of Pass@k at about 40 values of k, up to the smallest n."""
    ks = curve_ks(tallied)
    cells = pass_measures(tallied, ks).intervals()
    return {f"pass@{k}": cells[f"pass@{k}"] for k in ks}


def curve_ks(tallied: Tally) -> list[int]:
    """About 40 values of k, evenly on a logarithmic scale up to the smallest n."""
    require_measurable(tallied)
    spaced_K = np.geomspace(1, tallied.n_P.min(), 40).round().astype(int)
    ks: list[int] = np.unique(spaced_K).tolist()
    return ks


def majority_measures(tallied: Tally, ks: Sequence[int]) -> Measures:
    """Maj@k for every k, exactly; a tally without extracted answers has none."""
    require_measurable(tallied)
    if tallied.wrong is None:
        return Measures(tallied.prompt_id, [], np.zeros((len(tallied.prompt_id), 0)))
    counts = zip(tallied.correct_P.tolist(), tallied.wrong, tallied.silent_P.tolist(), strict=True)
    cases = [(c, tuple(sizes), silent) for c, sizes, silent in counts]
    known = {case: answers.maj_at_k(*case, ks) for case in set(cases)}
    names = [f"maj@{k}" for k in ks]
    return Measures(tallied.prompt_id, names, np.stack([known[case] for case in cases]))


def outcome_measures(tallied: Tally, ks: Sequence[int]) -> Measures:
    """The `pass_measures`, and the `majority_measures` where answers were extracted."""
    return joined(pass_measures(tallied, ks), majority_measures(tallied, ks))


def ucc_measures(
    tallied: Tally,
    ks: Sequence[int],
    *,
    threshold: float = 0.8,
    linkage: ucc.Linkage = "single",
    similarity: str = "tfidf",
) -> Measures:
    """UCC@k for every k, the number of clusters and UCR = clusters / n."""
    clusterings = clustering.of_tally(
        tallied, thresholds=[threshold], linkage=linkage, similarity=similarity
    )
    return clustered_measures(tallied, ks, clusterings, threshold)


def clustered_measures(
    tallied: Tally, ks: Sequence[int], clusterings: list[Clusters], threshold: float
) -> Measures:
    """The `ucc_measures` of clusters that are known already."""
    require_measurable(tallied)
    rows = []
    for n, clusters in zip(tallied.n_P.tolist(), clusterings, strict=True):
        sizes = clusters.sizes(threshold)
        rows.append([*ucc.ucc_at_k(n, sizes, ks), len(sizes), ucc.ucr(n, sizes)])
    names = [*(f"ucc@{k}" for k in ks), "clusters", "ucr"]
    return Measures(tallied.prompt_id, names, np.array(rows))


def sweep_measures(
    tallied: Tally,
    ks: Sequence[int],
    clusterings: list[Clusters],
    thresholds: Sequence[float],
) -> Measures:
    """The `clustered_measures` of each threshold; of several, the names include the threshold."""
    by_threshold = [
        clustered_measures(tallied, ks, clusterings, threshold) for threshold in thresholds
    ]
    if len(by_threshold) == 1:
        return by_threshold[0]
    return joined(
        *(
            Measures(m.prompt_id, [f"{name} at {threshold:g}" for name in m.names], m.value_PM)
            for m, threshold in zip(by_threshold, thresholds, strict=True)
        )
    )


def ucc_curve(
    tallied: Tally, clusterings: list[Clusters], threshold: float
) -> dict[str, list[float | None]]:
    """The mean and interval of UCC@k at about 40 values of k, up to the smallest n."""
    ks = curve_ks(tallied)
    cells = clustered_measures(tallied, ks, clusterings, threshold).intervals()
    return {f"ucc@{k}": cells[f"ucc@{k}"] for k in ks}


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
    out: Path | None,
    stage: str,
    scores: Shards | None,
    tallied: Tally,
    measures: Measures,
    params: dict[str, Any],
    on_part: OnPart,
) -> Shards | None:
    """A metrics directory, if there is to be one: a row a prompt, the means in its summary."""
    if out is None:
        return None
    columns: dict[str, Any] = {
        "prompt_id": tallied.prompt_id,
        "source": tallied.source,
        "n": tallied.n_P,
        "correct": tallied.correct_P,
        "excluded": tallied.excluded_P,
    }
    parents = {"scores": scores} if scores else {}
    facts = summary(tallied, measures)
    return write_metrics(out, stage, columns, measures, params, parents, facts, on_part)


def write_metrics(
    out: Path,
    stage: str,
    columns: dict[str, Any],
    measures: Measures,
    params: dict[str, Any],
    parents: dict[str, Shards],
    facts: dict[str, Any],
    on_part: OnPart,
    behaviour: Mapping[str, int] | None = None,
) -> Shards:
    """A metrics directory of these columns and measures; its content is a parameter too.

    `behaviour` is the version of each definition that has changed: see `Plan`.
    """
    counts = [list(map(int, columns[name])) for name in ("n", "correct")]
    content = content_hash(columns["prompt_id"], *counts, _plain(measures.value_PM))
    columns |= {name: measures.value_PM[:, m] for m, name in enumerate(measures.names)}
    extra = tuple(measures.names)
    table = pa.table(columns).cast(schema.schema("metrics", extra))
    return write_all_shards(
        out,
        Plan(
            "metrics",
            stage,
            params | {"content": content},
            parents,
            1,
            extra=extra,
            specs={
                "equality": _equality_meant,
                "content": lambda stored: earlier.content(
                    stored, content, out, table, behaviour or {}
                ),
            },
            optional=("equality", "min_n"),
            behaviour=behaviour or {},
        ),
        lambda _: table,
        summarise=lambda _: facts,
        on_part=on_part,
    )


def _equality_meant(stored: str) -> str:
    """The verifiers that compared answers, with all options that this version has."""
    return " ".join(
        spec if spec in ("text", "none") else rewards.canonical(spec, spec)
        for spec in stored.split(" ")
    )


def _plain(value_PM: np.ndarray) -> list[list[float | None]]:
    return [list(map(finite, row)) for row in value_PM.tolist()]


def over_files(tallied: Tally, measures: Measures) -> Measures:
    """Each prompt's mean over the files or sources that have it.

    Those of several runs or steps are not independent: a prompt is one draw, however many have it.
    """
    labels = sorted(tallied.read.get("apart", ()), key=len, reverse=True)
    if not labels and not tallied.shared:
        return measures
    number: dict[tuple[str, str], int] = {}
    code_P = np.empty(len(tallied.ids), dtype=np.int64)
    for place, (source, prompt_id) in enumerate(zip(tallied.source, tallied.ids, strict=True)):
        of = (name for name in labels if f"{source}/".startswith(f"{name}/"))
        label = next(of) if labels else source or ""
        code_P[place] = number.setdefault(((source or "")[len(label) :], prompt_id), len(number))
    sum_UM = np.zeros((len(number), len(measures.names)))
    np.add.at(sum_UM, code_P, measures.value_PM)
    mean_UM = sum_UM / np.bincount(code_P)[:, None]
    names = [f"{source}/{prompt_id}".removeprefix("/") for source, prompt_id in number]
    return Measures(names, measures.names, mean_UM)


def summary(tallied: Tally, measures: Measures) -> dict[str, Any]:
    """Counts, the `estimates` of each metric, and [mean, low, high] by source."""
    pooled = over_files(tallied, measures)
    return {
        "prompts": len(pooled.prompt_id),
        "n": [int(tallied.n_P.min()), int(tallied.n_P.max())],
        "excluded": int(tallied.excluded_P.sum()),
        "repeated": tallied.repeated,
        "left_out": tallied.left_out,
        "left_out_for": enough.left_out_for(tallied),
        **pooled.estimates(),
        "sources": by_source(tallied, measures),
        "read": tallied.read,
    }


def by_source(tallied: Tally, measures: Measures) -> dict[str, dict[str, Any]]:
    """Prompts and [mean, low, high] of each metric by source; empty unless there are several."""
    if len(set(tallied.source)) < 2:
        return {}
    rows: dict[str, list[int]] = {}
    for row, source in enumerate(tallied.source):
        rows.setdefault(source or "", []).append(row)
    return {
        source: {"prompts": len(members), "metrics": measures.of(members).intervals()}
        for source, members in rows.items()
    }

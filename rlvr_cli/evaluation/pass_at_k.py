"""The stages that measure stored completions: Pass@k, Maj@k, Avg@k, UCC@k, UCR.

Shapes: P prompts, K values of k, M metrics.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation import clustering
from rlvr_cli.evaluation.enough import default_ks as default_ks
from rlvr_cli.evaluation.load import of_scores as of_scores, tally as tally
from rlvr_cli.evaluation.measures import Measures, joined
from rlvr_cli.evaluation.metrics import answers, passk, ucc
from rlvr_cli.evaluation.metrics.clusters import Clusters
from rlvr_cli.evaluation.tallies import Tally as Tally, with_verdicts as with_verdicts
from rlvr_cli.storage.shards import Shards

PASS_ESTIMATOR = "1 - C(n-c, k) / C(n, k), unbiased, exact (arXiv:2107.03374, eq. 1)"
UCC_ESTIMATOR = "sum over clusters of 1 - C(n-s, k) / C(n, k), unbiased, exact (QUATRO, eq. 20)"
UCC_THRESHOLD = 0.8
TOKEN_COLUMNS = ("entropy", "old_logp", "ref_logp")


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


def ucc_measures(tallied: Tally, ks: Sequence[int]) -> Measures:
    """The `clustered_measures` at a TF-IDF cosine of UCC_THRESHOLD."""
    clusterings = clustering.of_tally(tallied, thresholds=[UCC_THRESHOLD])
    return clustered_measures(tallied, ks, clusterings, UCC_THRESHOLD)


def clustered_measures(
    tallied: Tally, ks: Sequence[int], clusterings: list[Clusters], threshold: float
) -> Measures:
    """UCC@k for every k, the number of clusters and UCR = clusters / n."""
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


def require_measurable(tallied: Tally) -> None:
    if not tallied.prompt_id:
        raise DataError(
            "no prompt has a completion with a verdict", "look at the status column of the scores"
        )

import json
import os

import pyarrow.parquet as pq
import pytest

from rlvr_cli.evaluation import clustering, pass_at_k
from rlvr_cli.runtime.malloc import BLAS_THREADS


def test_known_completions_give_the_exact_figures(rlvr, known):
    summary = json.loads(rlvr("ucc", known / "scores", "--k", "1,4", "--json").out)["metrics"]
    means = {name: values[0] for name, values in summary.items()}  # clusters: 2 of a, 1 of b
    assert means == pytest.approx({"ucc@1": 0.375, "ucc@4": 1.5, "clusters": 1.5, "ucr": 0.375})


def test_the_table_is_on_stdout_where_no_path_is(rlvr, known):
    ran = rlvr("ucc", known / "scores", "--k", "4")
    assert ran.code == 0 and ran.err == ""
    assert {"ucc@4", "clusters", "ucr"} <= {line.partition(" ")[0] for line in ran.out.split("\n")}


def test_the_threshold_and_the_linkage_are_part_of_the_figures(rlvr, known):
    words = ("--threshold", 0.5, "--linkage", "complete", "--json")
    summary = json.loads(rlvr("ucc", known / "scores", *words).out)
    assert (summary["threshold"], summary["linkage"], summary["prompts"]) == (0.5, "complete", 2)


def test_a_higher_threshold_never_finds_fewer_clusters(rlvr, jsonl):
    texts = ["the sum is two plus three", "the sum is two plus four", "a product of primes"]
    source = jsonl(*({"id": "a", "completion": text, "correct": True} for text in texts))
    values = [
        json.loads(rlvr("ucc", source, "--threshold", t, "--json").out)["metrics"]["clusters"][0]
        for t in (0.01, 0.5, 1.0)
    ]
    assert values == sorted(values) and values[0] < values[-1] == 3


def test_out_keeps_one_row_a_prompt_and_stdout_is_its_path(rlvr, known, tmp_path):
    ran = rlvr("ucc", known / "scores", "--k", "4", "--out", tmp_path / "made")
    assert (ran.code, ran.out) == (0, f"{tmp_path / 'made'}\n")
    assert pq.read_table(tmp_path / "made")["clusters"].to_pylist() == [2, 1]


def test_running_again_changes_nothing_and_says_so(rlvr, known, tmp_path, files_of):
    words = ("ucc", known / "scores", "--out", tmp_path / "made")
    rlvr(*words)
    before = files_of(tmp_path / "made")
    ran = rlvr(*words)
    assert files_of(tmp_path / "made") == before
    assert (ran.code, ran.out) == (0, f"{tmp_path / 'made'}\n")
    assert "nothing left to do" in ran.err


def test_another_threshold_is_refused_with_the_old_and_the_new_one(rlvr, refused, known, tmp_path):
    rlvr("ucc", known / "scores", "--out", tmp_path / "made")
    words = ("--threshold", 0.5, "--out", tmp_path / "made")
    assert "threshold was 0.8, is 0.5" in refused(2, "ucc", known / "scores", *words)


def test_several_thresholds_are_measured_at_once(rlvr, known):
    summary = json.loads(rlvr("ucc", known / "scores", "--threshold", "0.9,0.5", "--json").out)
    assert summary["threshold"] == [0.5, 0.9] and "QUATRO" in summary["estimator"]
    metrics = summary["metrics"]
    assert metrics["clusters at 0.5"][0] <= metrics["clusters at 0.9"][0] == 1.5
    alone = json.loads(rlvr("ucc", known / "scores", "--threshold", "0.5", "--json").out)
    assert metrics["ucc@4 at 0.5"] == alone["metrics"]["ucc@4"]


def test_clusters_are_written_with_a_representative_each(rlvr, jsonl, tmp_path):
    texts = ["2+3", "3+2", "the sum of two and three", "1+4"]
    rows = [{"id": "a", "completion": text, "correct": True} for text in texts]
    out = tmp_path / "deep" / "clusters.jsonl"
    ran = rlvr("ucc", jsonl(*rows), "--clusters", out)
    assert "ucc: 3 clusters -> " in ran.err
    values = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["size"], row["representative"]) for row in values] == [
        (2, "2+3"), (1, texts[2]), (1, "1+4"),
    ]  # fmt: skip
    assert values[0].items() >= {"prompt_id": "a", "threshold": 0.8, "cluster": 0}.items()


def test_another_similarity_counts_otherwise_and_is_part_of_the_parameters(
    rlvr, refused, known, tmp_path
):
    out = ("--out", tmp_path / "made")
    rlvr("ucc", known / "scores", "--similarity", "jaccard", *out)
    assert "similarity was jaccard, is tfidf" in refused(2, "ucc", known / "scores", *out)


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["1", "2"])  # of BLAS: with one this process takes part
def test_shared_work_gives_the_same_clusters(known, monkeypatch, threads):
    monkeypatch.setenv(BLAS_THREADS, threads)
    tallied, _ = pass_at_k.tally(known / "scores", texts=True)
    alone = clustering.of_tally(tallied, thresholds=[0.5, 0.8], representatives=True)
    monkeypatch.setattr(clustering, "MANY_TEXTS", 0)
    shared = clustering.of_tally(tallied, thresholds=[0.5, 0.8], representatives=True, workers=2)
    for one, other in zip(alone, shared, strict=True):
        for threshold in (0.5, 0.8):
            assert one.label[threshold].tolist() == other.label[threshold].tolist()
        assert one.representatives == other.representatives


def test_workers_multiply_on_one_core_each_and_leave_no_trace(monkeypatch):
    for before in (None, "5"):
        monkeypatch.delenv(BLAS_THREADS, raising=False)
        if before:
            monkeypatch.setenv(BLAS_THREADS, before)
        with clustering._one_thread():
            assert os.environ[BLAS_THREADS] == "1"
        assert os.environ.get(BLAS_THREADS) == before


def test_representatives_are_looked_for_where_they_are_written(known):
    tallied, _ = pass_at_k.tally(known / "scores", texts=True)
    assert clustering.of_tally(tallied, thresholds=[0.5])[0].representatives == {}


def test_the_plot_goes_where_the_table_goes(rlvr, known):
    assert "UCC@k against log2 k" in rlvr("ucc", known / "scores", "--plot").out


def test_a_file_without_completions_is_refused(refused, jsonl):
    err = refused(3, "ucc", jsonl({"id": "a", "correct": True}))
    assert "has no completions; it has id, correct" in err and "--completion-column" in err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--threshold", 0), 2, "threshold 0"),
        (("--threshold", 1.1), 2, "threshold 1.1"),
        (("--threshold", "nan"), 2, "threshold nan"),
        (("--threshold", "0.5,,0.6"), 2, "as in --threshold 0.6,0.8"),
        (("--similarity", "tfid"), 2, "tfidf"),
        (("--threshold", "x"), 2, "--threshold"),
        (("--linkage", "ward"), 2, "'single', 'average', 'complete'"),
        (("--k", "x"), 2, "--k is `x`"),
        (("--k", 8), 3, "`ucc@8` needs 8 completions"),
    ],
)
def test_a_wrong_word_is_refused(refused, known, words, code, message):
    assert message in refused(code, "ucc", known / "scores", *words)


def test_another_directory_than_scores_is_refused(refused, known):
    assert "scores were expected" in refused(3, "ucc", known / "rollouts")


def test_one_short_prompt_forbids_no_larger_k(rlvr, refused, jsonl):
    short, long = ({"completions": ["x", "y"] * n, "correct": [True, False] * n} for n in (1, 2))
    rows = [{"id": i, **(long if i else short)} for i in range(3)]
    err = refused(3, "ucc", jsonl(*rows), "--k", "4")
    assert "`ucc@4` needs 4" in err and "the 1 of 3 prompts with fewer: --min-n 4" in err
    ran = rlvr("ucc", jsonl(*rows), "--k", "4", "--min-n", "4")
    assert ran.code == 0 and "1 prompt with fewer than 4 verdicts left out (0)" in ran.out

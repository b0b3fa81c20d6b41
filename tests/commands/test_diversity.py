import json
import math

import pyarrow.parquet as pq
import pytest

ROWS = [
    {"id": "a", "completion": text, "correct": right, "extracted": answer, "finish_reason": why}
    for text, right, answer, why in (
        ("two plus three is five", True, "5", "stop"),
        ("three plus two is five", True, "5.0", "stop"),
        ("two plus three is six", False, "6", "stop"),
        ("two plus", False, None, "length"),
    )
]


def metrics(rlvr, *words) -> dict:
    return {
        k: v[0] for k, v in json.loads(rlvr("diversity", *words, "--json").out)["metrics"].items()
    }


def test_hand_worked_completions_give_the_exact_figures(rlvr, jsonl):
    metric_means = metrics(rlvr, jsonl(*ROWS))
    # answers: 5 twice (both right), 6 once, none once
    assert metric_means["answer entropy"] == pytest.approx(1.5 * math.log(2))
    assert metric_means["distinct-1"] == pytest.approx(6 / 17)
    assert metric_means["length"] == pytest.approx(17 / 4) and metric_means[
        "length std"
    ] == pytest.approx(1.5)
    assert metric_means["truncated"] == 0.25
    assert metric_means["jaccard similarity"] == pytest.approx((1 + 2 * 4 / 6 + 3 * 2 / 5) / 6)
    assert 0 < metric_means["1 - self-bleu"] < 1 and 0 < metric_means["tfidf similarity"] < 1


def test_equal_completions_are_not_diverse_and_are_counted(rlvr, jsonl):
    rows = [{"id": "a", "completion": "the sum is two", "correct": True}] * 3
    ran = rlvr("diversity", jsonl(*rows))
    assert "2 repeat an earlier completion of their prompt" in ran.out
    metric_means = metrics(rlvr, jsonl(*rows))
    assert (
        metric_means["1 - self-bleu"] == pytest.approx(0) and metric_means["tfidf similarity"] == 1
    )


def test_a_directory_knows_tokens_and_why_completions_end(rlvr, known):
    summary = json.loads(rlvr("diversity", known / "scores", "--json").out)
    assert summary["lengths"]["unit"] == "tokens" and summary["lengths"]["max"] == 4
    assert summary["metrics"]["truncated"][0] == 0 and summary["prompts"] == 2
    rollouts = json.loads(rlvr("diversity", known / "rollouts", "--json").out)["metrics"]
    assert rollouts["length"] == summary["metrics"]["length"]


def test_the_truncated_share_is_of_those_whose_end_is_known(rlvr, jsonl):
    ends = {"a": ("max_tokens", None, "end_turn"), "b": ("stop", "stop", "stop")}
    rows = [{"id": n, "completion": "x y", "stop_reason": r} for n, rs in ends.items() for r in rs]
    assert metrics(rlvr, jsonl(*rows))["truncated"] == pytest.approx(0.25)
    rows += [{"id": "c", "completion": "x y"}] * 2
    assert "truncated" not in metrics(rlvr, jsonl(*rows))


def test_entropies_come_from_log_probs_of_the_same_rollouts(rlvr, refused, known, chain, tmp_path):
    rlvr("logprob", known / "rollouts", "--model", "builtin", "--out", tmp_path / "logprobs")
    words = ("--logprobs", tmp_path / "logprobs")
    metric_means = metrics(rlvr, known / "scores", *words)
    table = pq.read_table(tmp_path / "logprobs").to_pylist()
    for name, column in (("token entropy", "entropy"), ("max-prob", "max_prob")):
        by_prompt = [
            [v for row in table if row["prompt_id"] == prompt for v in row[column]]
            for prompt in "ab"
        ]
        truth = sum(sum(values) / len(values) for values in by_prompt) / 2
        assert metric_means[name] == pytest.approx(truth, rel=1e-6)
    err = refused(3, "diversity", chain / "scores", *words)
    assert "log-probs of other rollouts" in err


def test_out_keeps_one_row_a_prompt_and_running_again_changes_nothing(rlvr, known, tmp_path):
    words = ("diversity", known / "scores", "--out", tmp_path / "made")
    assert rlvr(*words).out == f"{tmp_path / 'made'}\n"
    assert pq.read_table(tmp_path / "made")["n"].to_pylist() == [4, 4]
    assert "nothing left to do" in rlvr(*words).err


def test_prompts_with_one_completion_are_left_out_and_named(rlvr, refused, jsonl):
    rows = [*ROWS, {"id": "b", "completion": "x"}]
    summary = json.loads(rlvr("diversity", jsonl(*rows), "--json").out)
    assert (summary["prompts"], summary["left_out"]) == (1, ["b"])
    assert "no prompt has two completions" in refused(3, "diversity", jsonl(rows[-1]))


@pytest.mark.parametrize(
    ("rows", "words", "code", "message"),
    [
        ([{"id": "a", "correct": True}], (), 3, "no completions; it has id, correct"),
        ([{"completion": "a"}], (), 3, "--id-column"),
        (ROWS, ("--similarity", "bleu"), 2, "bleu"),
        (ROWS, ("--logprobs", "nope"), 3, "does not exist"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused(refused, jsonl, rows, words, code, message):
    assert message in refused(code, "diversity", jsonl(*rows), *words)

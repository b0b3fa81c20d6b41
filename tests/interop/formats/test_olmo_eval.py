"""Predictions as `src/olmo_eval/runners/io/builders.py` of allenai/olmo-eval builds them, and as
`oe_eval` of allenai/olmes wrote them before."""

import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.pass_at_k import tally


def output(text, **more):
    return {"text": text, "extracted_answer": text[-1], "num_chars": len(text), **more}


def scored(text, right):
    return output(text, sample_metrics={"exact_match": {"exact_match": right}})


def test_every_output_of_a_document_is_judged(store, counts):
    row = {"doc_id": 0, "native_id": "gsm8k_7", "label": "4",
           "model_output": [scored("it is 4", 1.0), scored("it is 5", 0.0)],
           "instance_metrics": {"exact_match": {"exact_match": 1.0},
                                "pass_at_2": {"exact_match": 1.0}}}  # fmt: skip
    path = store("gsm8k_a1b2c3-predictions.jsonl", row)
    assert counts(path) == {"gsm8k_7": (2, 1)}
    tallied, _ = tally(path, texts=True)
    assert (tallied.texts, tallied.source) == ([["it is 4"]], ["gsm8k"])


def test_a_metric_of_a_document_is_no_verdict_on_its_samples(store):
    row = {"doc_id": 0, "native_id": "a", "model_output": [output("4"), output("5")],
           "instance_metrics": {"pass_at_2": {"exact_match": 1.0}}, "label": "4"}  # fmt: skip
    with pytest.raises(DataError, match="does not say which completions are correct"):
        tally(store("x-predictions.jsonl", row))


def test_choices_by_likelihood_are_one_verdict(store, counts):
    choices = [output(t, sum_logits=-1.0, num_tokens=1, is_greedy=False) for t in (" A", " B")]
    row = {
        "doc_id": 3,
        "native_id": "arc_3",
        "model_output": choices,
        "label": 0,
        "instance_metrics": {"acc_raw": {"acc_raw": 1.0}, "acc_per_char": {"x": 0.0}},
    }
    assert counts(store("arc-predictions.jsonl", row)) == {"arc_3": (1, 1)}


def test_the_metrics_of_olmes_are_flat(store, counts, verdicts):
    row = {"doc_id": 0, "native_id": 12, "metrics": {"exact_match": 0.0, "f1": 0.5}, "label": "4",
           "model_output": [{"continuation": " 5", "num_tokens": 2}], "task_hash": "h",
           "model_hash": "m"}  # fmt: skip
    path = store("task-003-gsm8k-predictions.jsonl", row)
    assert counts(path) == {"12": (1, 0)}
    tallied, _ = tally(path, texts=True)
    assert tallied.source == ["gsm8k"]
    with pytest.raises(DataError, match=r"`0\.5`"):
        verdicts(path, correct="f1")

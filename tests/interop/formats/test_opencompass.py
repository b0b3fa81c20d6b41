"""Layouts of open-compass/opencompass: predictions of `icl_base_inferencer.py`, details of
`icl_base_evaluator.py` (since 2025) and of `format_details` of `openicl_eval.py` (before)."""

import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.pass_at_k import tally
from rlvr_cli.interop import readers
from rlvr_cli.interop.completions import Stream


def prediction(question, text):
    turns = [{"role": "HUMAN", "prompt": question}]
    return {"origin_prompt": turns, "prediction": text, "gold": "4"}


def test_details_hold_a_verdict_of_each_repeat(store, counts):
    details = [{"example_abbr": f"math_{i}", "pred": ["4", "5"], "answer": ["4", "4"],
                "correct": [True, i == 0], "G-Pass@2_0.5": 1.0, "mG-Pass@2": 0.0}
               for i in (0, 1)]  # fmt: skip
    path = store("results/m/math.json", {"accuracy (2 runs average)": 75.0, "details": details})
    assert counts(path) == {"math_0": (2, 2), "math_1": (2, 1)}


def test_details_with_more_answers_than_verdicts_are_refused(store):
    details = [{"example_abbr": "math_0", "pred": ["4", "5"], "answer": ["4"], "correct": [True]}]
    with pytest.raises(DataError, match="lists of different lengths"):
        tally(store("math.json", {"accuracy": 75.0, "details": details}))


def test_details_of_choices_have_verdicts_and_no_text(store, counts):
    details = {"type": "PPL", "0": {"origin_prediction": {"A": {"BPB": 0.1}, "B": {"BPB": 0.2}},
                                    "predictions": "A", "references": "A",
                                    "correct": True}}  # fmt: skip
    assert counts(store("ceval.json", {"accuracy": 100.0, "details": details})) == {"0": (1, 1)}


def test_details_of_earlier_versions_are_under_their_numbers(store, counts):
    details = {"type": "GEN", "0": {"prompt": "2+2?", "origin_prediction": "It is 4",
                                    "predictions": "4", "references": "4", "correct": True},
               "1": {"prompt": "2+3?", "origin_prediction": "It is 4", "predictions": "4",
                     "references": "5", "correct": False}}  # fmt: skip
    path = store("gsm8k.json", {"accuracy": 50.0, "details": details})
    assert counts(path) == {"0": (1, 1), "1": (1, 0)}
    tallied, _ = tally(path, texts=True)
    assert tallied.texts == [["It is 4"], []]


def test_graded_scores_of_details_are_no_verdicts(store):
    details = [{"example_abbr": "seed_0", "pred": ["a"], "answer": ["b"], "correct": [62.5]}]
    with pytest.raises(DataError, match=r"`correct` = `62\.5`"):
        tally(store("seed.json", {"accuracy": 62.5, "details": details}))


def test_repeats_of_a_prompt_are_its_completions(store):
    rows = {"0": prediction("2+2?", "4"), "1": prediction("1+1?", "2"),
            "2": prediction("2+2?", "5"), "3": prediction("1+1?", "2")}  # fmt: skip
    (batch,) = Stream(store("predictions/m/x.json", rows), wanted={"completion"})
    ids = batch.prompt_id.to_pylist()
    assert ids[0] == ids[2] != ids[1] == ids[3]
    assert batch.completion.to_pylist() == ["4", "2", "5", "2"]
    assert batch.rows[0]["prompt"] == [{"role": "user", "content": "2+2?"}]


def test_predictions_have_no_verdicts(store):
    with pytest.raises(DataError, match="does not say which completions are correct"):
        tally(store("x.json", {"0": prediction("2+2?", "4")}))


def test_other_rows_under_numbers_stay_as_they_are(store, counts):
    rows = {"0": {"completion": "4", "correct": True}, "1": {"completion": "5", "correct": False}}
    assert counts(store("x.json", rows)) == {"0": (1, 1), "1": (1, 0)}
    assert readers.read(store("y.json", {"0": "a"})) == [{"0": "a"}]

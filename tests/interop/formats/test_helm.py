"""Layouts of stanford-crfm/helm: `ScenarioState` and `DisplayPrediction`."""

import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.interop.completions import Stream


def state(name, *texts, trial=0, **more):
    completions = [
        {"text": text, "logprob": -1.0, "tokens": [], "finish_reason": {"reason": "stop"}}
        for text in texts
    ]
    return {
        "instance": {"id": name, "split": "test", "input": {"text": "2+2?"}, "references": [
            {"output": {"text": "4"}, "tags": ["correct"]},
            {"output": {"text": "5"}, "tags": []}]},
        "request": {"model": "openai/gpt-4o", "prompt": "Q: 2+2?\nA:"},
        "result": {"success": True, "completions": completions, "cached": False},
        "train_trial_index": trial, "num_train_instances": 0, "prompt_truncated": False,
        **more,
    }  # fmt: skip


def read(path):
    rows = []
    for batch in Stream(path, wanted={"completion", "gold", "prompt", "finish"}):
        columns = (batch.prompt_id, batch.completion, batch.gold)
        rows += zip(*([str(value) for value in column] for column in columns), strict=True)
    return rows


def store_states(store, *states):
    spec = {"method": "generation", "num_outputs": 2}
    path = store("scenario_state.json", {"adapter_spec": spec, "request_states": states})
    return path


def test_completions_of_every_trial(store):
    path = store_states(
        store, state("id1", "4", "5"), state("id1", "4", "6", trial=1), state("id2", "4", "7")
    )
    assert read(path) == [
        ("id1", "4", "4"), ("id1", "5", "4"), ("id1", "4", "4"), ("id1", "6", "4"),
        ("id2", "4", "4"), ("id2", "7", "4"),
    ]  # fmt: skip


def test_the_gold_of_a_choice_is_its_letter(store):
    path = store_states(store, state("id1", "B", output_mapping={"A": "5", "B": "4"}))
    assert read(path) == [("id1", "B", "B")]


def test_likelihoods_of_choices_are_no_completions(store):
    path = store_states(store, *(state("id1", "4", reference_index=i) for i in range(2)))
    with pytest.raises(DataError, match="likelihoods of choices") as error:
        read(path)
    assert "display_predictions.json" in error.value.hint


def prediction(name, right, trial=0, **more):
    return {"instance_id": name, "train_trial_index": trial, "predicted_text": "4",
            "stats": {"num_output_tokens": 1.0, **right}, **more}  # fmt: skip


def test_perturbed_instances_are_prompts_of_their_own(store, counts):
    typos = {"name": "typos", "robustness": True, "prob": 0.1}
    path = store("display_predictions.json", [
        prediction("id1", {"exact_match": 1.0}), prediction("id1", {"exact_match": 0.0}, 1),
        prediction("id1", {"exact_match": 0.0}, perturbation=typos),
    ])  # fmt: skip
    assert counts(path) == {"id1": (2, 1), "id1:typos": (1, 0)}


def test_one_metric_is_the_verdict_and_another_may_be_named(store, counts):
    stats = {"quasi_exact_match": 1.0, "final_number_exact_match": 0.0, "mine": 1.0}
    path = store("display_predictions.json", [prediction("id1", stats)])
    assert counts(path) == {"id1": (1, 0)}
    assert counts(path, correct_column="mine") == {"id1": (1, 1)}

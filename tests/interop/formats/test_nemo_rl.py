"""The layout of `log_batched_dict_as_jsonl` of NVIDIA-NeMo/RL: each value is a list of one."""

import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.pass_at_k import tally


def row(at, reward, *content):
    return {"content": [list(content)], "rewards": [reward], "generation_logprobs": [[-0.1]],
            "input_lengths": [3], "idx": at}  # fmt: skip


def test_the_rows_of_a_step_are_samples_of_equal_prompts(store):
    path = store(
        "train_data_step1.jsonl",
        row(0, 1.0, "2+2?", "it is 4", "Environment: correct"),
        row(1, 0.0, "2+2?", "it is 5", "Environment: incorrect"),
        row(2, 0.0, "3+3?", "it is 7"),
    )
    tallied, _ = tally(path, texts=True)
    assert (tallied.n_P.tolist(), tallied.correct_P.tolist()) == ([2, 1], [1, 0])
    assert tallied.texts == [["it is 4"], []]


def test_what_the_environment_says_is_not_the_models(store):
    turns = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "it is 4"},
             {"role": "environment", "content": "Environment: correct"}]  # fmt: skip
    tallied, _ = tally(store("val_data_step1.jsonl", row(0, 1.0, *turns)), texts=True)
    assert tallied.texts == [["it is 4"]]


def test_texts_whose_writers_are_not_known_are_refused(store):
    path = store("train_data_step1.jsonl", row(0, 1.0, "be brief", "2+2?", "it is 4"))
    with pytest.raises(DataError, match="a row of 3 texts, which do not say who wrote them"):
        tally(path)

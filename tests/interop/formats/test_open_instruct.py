"""Layouts of allenai/open-instruct: `RolloutRecord` of rl_utils.py, and the table of
rejection_sampling/generation.py."""

import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.pass_at_k import tally
from rlvr_cli.interop.completions import Stream


def record(i, reward):
    return {
        "step": 1,
        "sample_idx": i,
        "prompt_idx": i // 2,
        "prompt_tokens": [1, i // 2],
        "response_tokens": [5, 6],
        "reward": reward,
        "advantage": 0.0,
        "finish_reason": "stop",
        "dataset": "gsm8k",
        "ground_truth": [9],
        "request_info": None,
        "logprobs": None,
    }


def test_rollouts_of_equal_prompt_tokens_are_of_one_prompt(store, counts):
    path = store("run_rollouts_000000.jsonl", *(record(i, float(i > 1)) for i in range(4)))
    assert sorted(counts(path).values()) == [(2, 0), (2, 2)]


def test_rewards_of_ten_are_graded(store):
    with pytest.raises(DataError, match="graded"):
        tally(store("run_rollouts_000000.jsonl", record(0, 10.0), record(1, 0.0)))


def test_completions_for_rejection_sampling(store):
    rows = [
        {
            "messages": [
                {"role": "user", "content": "2+2?"},
                {"role": "assistant", "content": text},
            ],
            "model_completion": text,
            "reference_completion": "four",
        }
        for text in "45"
    ]
    (batch,) = Stream(store("completions.jsonl", *rows), wanted={"completion"})
    assert batch.completion.to_pylist() == ["4", "5"]
    assert len(set(batch.prompt_id.to_pylist())) == 1

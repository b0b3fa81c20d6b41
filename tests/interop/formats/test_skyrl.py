"""The rows that `dump_per_dataset_eval_results` of NovaSky-AI/SkyRL writes."""

import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.pass_at_k import tally


def row(question, score):
    return {"input_prompt": question, "output_response": "4<|im_end|>", "score": score,
            "stop_reason": "stop", "env_class": "gsm8k", "data_source": "openai/gsm8k",
            "env_extras": {"reward_spec": {"method": "rule", "ground_truth": "4"}}}  # fmt: skip


def test_equal_prompts_are_one_and_rewards_of_tokens_are_added(store, counts):
    path = store("openai_gsm8k.jsonl", row("2+2?", 1.0), row("2+2?", [0.0, 0.0, 1.0]),
                 row("2+2?", [0.0, 0.0]))  # fmt: skip
    assert list(counts(path).values()) == [(3, 2)]


def test_graded_rewards_are_no_verdicts(store):
    with pytest.raises(DataError, match="graded"):
        tally(store("x.jsonl", row("2+2?", 0.5)))

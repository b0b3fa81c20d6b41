"""The rows that `openrlhf/cli/batch_inference.py` of OpenRLHF/OpenRLHF writes."""

import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.pass_at_k import tally
from rlvr_cli.interop.completions import Stream


def test_a_reward_model_scores_and_does_not_judge(store):
    path = store("scored.jsonl", {"input": "2+2?", "output": "4", "reward": 3.25},
                 {"input": "2+2?", "output": "5", "reward": -1.5})  # fmt: skip
    (batch,) = Stream(path, wanted={"completion", "reward"})
    assert len(set(batch.prompt_id.to_pylist())) == 1
    assert batch.reward.tolist() == [3.25, -1.5]
    with pytest.raises(DataError, match="graded"):
        tally(path)


def test_an_instruction_with_its_input_is_another_layout(store):
    row = {"instruction": "Add.", "input": "2+2", "output": "4"}
    with pytest.raises(DataError, match="none of the columns"):
        tally(store("alpaca.jsonl", row))

"""Layouts of PrimeIntellect-ai/verifiers: results.jsonl of 2025 (as in `environments/gsm8k/
outputs/evals/`), `state_to_output` of save_utils.py, and the traces and episodes of version 1.
prime-rl stores its rollouts in the latter three."""

import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.pass_at_k import tally

ASKED = [{"role": "user", "content": "2+2?"}]
SAID = [{"role": "assistant", "content": "it is 4"}]


def result(name, reward, completion=SAID):
    return {
        "id": name,
        "prompt": ASKED,
        "completion": completion,
        "task": "default",
        "reward": reward,
        "generation_ms": 1.0,
        "scoring_ms": 0.0,
        "total_ms": 1.0,
        "answer": "4",
        "correct_answer_reward_func": reward,
        "format_reward_func": 0.0,
    }


def rollout(reward, **more):
    return {"example_id": 3, "prompt": ASKED, "completion": SAID, "answer": "4", "reward": reward,
            "timing": {"total_ms": 1.0}, "is_completed": True, "is_truncated": False,
            "stop_condition": "max_turns_reached", "metrics": {"correct": reward}, "error": None,
            "correct_answer": reward, **more}  # fmt: skip


def trace(score, *, stop="done", turns=SAID):
    said = [{"parent": 0, "message": turn, "sampled": True} for turn in turns]
    return {
        "version": 1,
        "id": "t",
        "task": {"type": "gsm8k", "data": {"idx": 5, "prompt": "2+2?", "answer": "4"}},
        "agent": {"config": {}},
        "nodes": [{"message": ASKED[0], "sampled": False}, *said],
        "rewards": {
            "exact": {"score": score, "weight": 1.0},
            "style": {"score": 1.0, "weight": 0.0},
        },
        "metrics": {"num_turns": 1.0},
        "stop_condition": stop,
        "ok": stop != "error",
    }


def test_results_of_2025(store, counts):
    path = store("results.jsonl", result(0, 1.0), result(0, 0.0), result(1, 0.0))
    assert counts(path) == {"0": (2, 1), "1": (1, 0)}
    tallied, _ = tally(path, texts=True)
    assert tallied.texts[0] == ["it is 4"]


def test_a_rollout_that_made_nothing_or_failed_has_no_verdict(store, verdicts):
    path = store("results.jsonl", result(0, 1.0), result(0, 0.0, completion=[]))
    assert verdicts(path) == [1, -1]
    failed = rollout(0.0, error={"error": "ModelError", "error_chain_repr": "...",
                                 "error_chain_str": "..."})  # fmt: skip
    assert verdicts(store("eval_rollouts.jsonl", rollout(1.0), failed)) == [1, -1]


def test_a_metric_can_be_named_where_rewards_are_graded(store, counts):
    path = store("train_rollouts.jsonl", rollout(1.2, correct_answer=1.0),
                 rollout(0.2, correct_answer=0.0))  # fmt: skip
    with pytest.raises(DataError):
        tally(path)
    assert counts(path, correct="correct_answer") == {"3": (2, 1)}


def test_traces_alone_and_in_episodes(store, counts):
    assert counts(store("traces.jsonl", trace(1.0), trace(0.0))) == {"5": (2, 1)}
    episode = {"task": {"data": {}}, "env_id": "gsm8k", "ok": True,
               "traces": [trace(1.0), trace(0.0, stop="error")]}  # fmt: skip
    path = store("rollouts/step_0/eval/all/traces.jsonl", episode)
    tallied, _ = tally(path, texts=True)
    assert (tallied.prompt_id, tallied.source) == (["5"], ["gsm8k"])
    assert (tallied.n_P.tolist(), tallied.excluded_P.tolist()) == ([1], [1])
    assert tallied.texts == [["it is 4"]]

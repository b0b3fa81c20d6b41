"""Layouts of rllm-org/rllm: `EvalResult` of eval/results.py and `Episode` of types.py."""

from rlvr_cli.evaluation.pass_at_k import tally


def item(idx, right, attempt=0, error=None):
    return {"idx": idx, "reward": float(right), "is_correct": right, "error": error, "signals": {},
            "attempt": attempt}  # fmt: skip


def test_attempts_of_a_task_and_those_that_failed(store):
    items = [item(0, True), item(0, False, 1), item(1, False), item(1, False, 1, "timeout")]
    tallied, _ = tally(store("math_m_20260101.json", {
        "dataset_name": "math", "model": "m", "agent": "react", "score": 0.25, "total": 4,
        "correct": 1, "errors": 1, "items": items, "attempts": 2, "pass_at": {"1": 0.25},
    }))  # fmt: skip
    assert tallied.prompt_id == ["0", "1"]
    assert tallied.correct_P.tolist() == [1, 0]
    assert tallied.excluded_P.tolist() == [0, 1]


def test_a_folder_of_episodes(store, counts):
    for i, right in enumerate((True, False, True)):
        turns = [
            {"role": "user", "content": "2+2?"},
            {"role": "assistant", "content": f"it is {i}"},
        ]
        path = store(f"episodes/episode_{i:06d}_7.json", {
            "id": f"7:{i}", "task": {"id": "7", "instruction": "2+2?"}, "is_correct": right,
            "termination_reason": "env_done", "eval_idx": i,
            "trajectories": [{"name": "solver", "reward": float(right),
                              "steps": [{"chat_completions": turns, "model_response": ""}]}],
        })  # fmt: skip
    assert counts(path.parent) == {"7": (3, 2)}
    tallied, _ = tally(path.parent, texts=True)
    assert tallied.texts == [["it is 0", "it is 2"]]

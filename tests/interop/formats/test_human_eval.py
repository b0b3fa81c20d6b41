"""What `human_eval/evaluation.py` of openai/human-eval writes, `samples.jsonl_results.jsonl`."""


def test_results_need_no_format_of_their_own(store, counts):
    rows = [{"task_id": "HumanEval/0", "completion": "    return 1", "result": result,
             "passed": result == "passed"}
            for result in ("passed", "failed: ", "timed out")]  # fmt: skip
    assert counts(store("samples.jsonl_results.jsonl", *rows)) == {"HumanEval/0": (3, 1)}

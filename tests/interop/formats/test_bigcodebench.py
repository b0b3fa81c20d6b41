"""The layout that `bigcodebench/evaluate.py` of bigcode-project/bigcodebench writes."""

import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.pass_at_k import tally


def sample(status, task="BigCodeBench/0"):
    details = {} if status == "pass" else {"test_case_1": "Traceback ..."}
    return {"task_id": task, "solution": f"# {status}", "status": status, "details": details}


def test_results_have_one_status_a_solution(store, counts):
    tasks = {"BigCodeBench/0": [sample("pass"), sample("fail"), sample("timeout")],
             "BigCodeBench/1": [sample("pass", "BigCodeBench/1")] * 3}  # fmt: skip
    path = store("m_eval_results.json", {"date": "2025-01-01 10:00", "eval": tasks})
    assert counts(path) == {"BigCodeBench/0": (3, 1), "BigCodeBench/1": (3, 3)}
    tallied, _ = tally(path, texts=True)
    assert tallied.texts[0] == ["# pass"]


def test_an_unknown_status_is_named_with_its_task(store):
    path = store("m_eval_results.json", {"date": "", "eval": {"BigCodeBench/0": [sample("ok")]}})
    with pytest.raises(DataError, match="status `ok` in `BigCodeBench/0`"):
        tally(path)

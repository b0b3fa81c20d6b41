"""Layouts that `evalplus/evaluate.py` of evalplus/evalplus wrote: to commit 1034038 of February
2024 `nfiles`, `base` and `plus`, since then one object a sample."""

import pytest

from rlvr_cli.config import Columns
from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.pass_at_k import tally


def old(base, plus, status=("success", "failed", "timed out")):
    words = dict(zip("pft", status, strict=True))
    return {"nfiles": len(base), "base": [[words[s], [True]] for s in base],
            "plus": [[words[s], [True, False]] for s in plus]}  # fmt: skip


def results(**tasks):
    return {"date": "2024-01-18 04:10", "hash": "fe585eb4df8c88d844eeb463ea4d0302",
            "eval": {name.replace("_", "/"): one for name, one in tasks.items()}}  # fmt: skip


@pytest.mark.parametrize("words", [("success", "failed", "timed out"), ("pass", "fail", "timeout")])
def test_results_of_2024_are_lists_of_status_and_details(store, counts, words):
    path = store(
        "gpt4_eval_results.json",
        results(HumanEval_0=old("ppf", "pff", words), HumanEval_1=old("tpp", "tpp", words)),
    )
    assert counts(path) == {"HumanEval/0": (3, 1), "HumanEval/1": (3, 2)}
    by_base = counts(path, correct="base_correct")
    assert by_base == {"HumanEval/0": (3, 2), "HumanEval/1": (3, 2)}


def test_without_plus_tests_the_base_tests_decide(store, counts):
    path = store("r_eval_results.json", results(HumanEval_0=old("ppf", "")))
    assert counts(path) == {"HumanEval/0": (3, 2)}


def test_the_base_and_the_plus_tests_are_of_the_same_samples(store):
    path = store("r_eval_results.json", results(HumanEval_0=old("ppf", "p")))
    with pytest.raises(DataError, match=r"3 results of the base tests and 1 .* `HumanEval/0`"):
        tally(path)


def test_a_status_that_is_not_known_is_no_failure(store):
    samples = [{"task_id": "HumanEval/7", "solution": "s", "base_status": "crashed",
                "plus_status": None}]  # fmt: skip
    path = store("r_eval_results.json", results(HumanEval_7=samples))
    with pytest.raises(DataError, match="has the status `crashed` in `HumanEval/7`"):
        tally(path)


def test_a_status_of_null_is_no_verdict(store):
    samples = [{"task_id": "HumanEval/7", "solution": "s", "base_status": status,
                "plus_status": status} for status in ("pass", None)]  # fmt: skip
    tallied, _ = tally(store("r_eval_results.json", results(HumanEval_7=samples)))
    assert (tallied.n_P.tolist(), tallied.excluded_P.tolist()) == ([1], [1])


def test_a_column_that_is_none_is_refused_with_those_that_are_read(store):
    path = store("r_eval_results.json", results(HumanEval_0=old("ppf", "ppf")))
    with pytest.raises(DataError, match=r"has no column `base_status`; it has date.*base_correct"):
        tally(path, columns=Columns(correct="base_status"))

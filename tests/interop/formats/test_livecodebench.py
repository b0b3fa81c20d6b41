"""Layouts of `lcb_runner/benchmarks/` of LiveCodeBench/LiveCodeBench, as main.py stores them."""

import pytest

from rlvr_cli.errors import DataError
from rlvr_cli.evaluation.pass_at_k import tally


def problem(name, **more):
    return {"question_title": "Sum", "question_content": f"Add up {name}.", "platform": "atcoder",
            "question_id": name, "contest_id": "abc301", "contest_date": "2023-05-13T00:00:00",
            "starter_code": "", "difficulty": "easy",
            "output_list": ["```python\nx\n```", "none", "```\ny\n```"], **more}  # fmt: skip


def graded(*grades):
    return {"graded_list": [*grades], "pass@1": sum(grades) / len(grades), "metadata": ["{}"] * 3}


def test_graded_programs_of_a_problem(store, counts):
    code = {"code_list": ["x", "", "y"]}
    path = store("Scenario.codegeneration_3_0.2_eval_all.json",
                 [problem("abc301_a", **code, **graded(True, False, True)),
                  problem("abc301_b", **code, **graded(False, False, False))])  # fmt: skip
    assert counts(path) == {"abc301_a": (3, 2), "abc301_b": (3, 0)}
    tallied, _ = tally(path, texts=True)
    assert tallied.texts == [["```python\nx\n```", "```\ny\n```"], []]
    assert set(counts(path, source="difficulty")) == {"abc301_a", "abc301_b"}


def test_tests_of_one_problem_are_prompts_of_their_own(store, counts):
    rows = [problem("2777", pred_list=["1", "", "2"], test_id=i, **graded(i == 0, False, False))
            for i in (0, 1)]  # fmt: skip
    assert counts(store("a_eval_all.json", rows)) == {"2777/0": (3, 1), "2777/1": (3, 0)}


def test_outputs_that_were_not_graded_say_so(store):
    path = store("Scenario.codegeneration_3_0.2.json", [problem("a", code_list=["x", "", "y"])])
    with pytest.raises(DataError, match="does not say which completions are correct"):
        tally(path)

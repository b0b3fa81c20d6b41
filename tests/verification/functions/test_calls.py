"""What a reward function is given, in the style of each library."""

import asyncio

from rlvr_cli.protocols import Group
from rlvr_cli.verification.functions import calls, signatures

GROUP = Group(("one", "two"), ([1, 2], [3]), "5", "2+3=", "p", "sums", {"level": 3, "tags": ["a"]})


def given(parameters, group=GROUP, form="text"):
    names: dict = {}
    exec(f"def f({parameters}): return dict(locals())", names)
    source = f"def f({parameters}): ..."
    signature = signatures.of("f.py:f", source.encode(), "f", lambda: names["f"])
    return calls.call(names["f"], signature, group, form or calls.form_of(group, signature, "auto"))


def test_a_function_of_trl_gets_each_column_once_a_completion():
    got = given("prompts, completions, completion_ids, level, solution, **kwargs")
    assert got.pop("kwargs") == {"answer": ["5", "5"], "tags": [["a"], ["a"]]}
    assert got == {
        "prompts": ["2+3=", "2+3="],
        "completions": ["one", "two"],
        "completion_ids": [[1, 2], [3]],
        "level": [3, 3],
        "solution": ["5", "5"],
    }


def test_a_column_of_the_prompts_comes_before_the_gold_of_that_name():
    extra = {"solution": "because", "ground_truth": "x"}
    group = Group(("one",), None, "5", "q", "p", None, extra)
    assert given("completions, solution, answer, target", group) == {
        "completions": ["one"], "solution": ["because"], "answer": ["5"], "target": ["5"],
    }  # fmt: skip


def test_a_function_of_trl_gets_messages_where_its_annotation_or_the_prompt_has_them():
    turn = [{"role": "user", "content": "2+3="}]
    said = [[{"role": "assistant", "content": "one"}], [{"role": "assistant", "content": "two"}]]
    got = given("prompts, completions: list[list[dict]]", form="")
    assert got == {"prompts": [turn, turn], "completions": said}
    chat = Group(("one", "two"), None, "5", turn, "p", None, {})
    assert given("prompts, completions", chat, "")["completions"] == said
    assert given("completions", form="")["completions"] == ["one", "two"]
    assert given("prompts, completions: list[str]", chat, "") == {
        "prompts": ["2+3="] * 2, "completions": ["one", "two"],
    }  # fmt: skip


def test_what_a_function_logs_is_taken_and_dropped():
    got = given("completions, log_extra, log_metric")
    assert got["log_extra"]("a", [1]) is None and got["log_metric"]("b", 1.0) is None


def test_a_function_of_verl_gets_its_columns_or_what_stands_for_them():
    one = Group(("one",), None, "5", "q", "p", "sums", {"level": 3})
    assert given("data_source, solution_str, ground_truth, extra_info=None", one) == {
        "data_source": "sums", "solution_str": "one", "ground_truth": "5",
        "extra_info": {"level": 3},
    }  # fmt: skip
    columns = {"data_source": "openai/gsm8k", "extra_info": {"index": 7}}
    verl = Group(("one",), None, "5", "q", "p", "sums", columns)
    got = given("data_source, model_output, ground_truth, extra_info", verl)
    assert (got["data_source"], got["extra_info"]) == ("openai/gsm8k", {"index": 7})
    assert got["model_output"] == "one"
    batch = given("data_sources, solution_strs, ground_truths, extra_infos, **kwargs")
    assert batch["solution_strs"] == ["one", "two"] and batch["ground_truths"] == ["5", "5"]


def test_a_function_of_open_instruct_gets_the_label_the_query_and_the_tokens_if_there_are_any():
    one = Group(("one",), ([1, 2],), "5", [{"role": "user", "content": "q"}], "p", None, {})
    got = given("tokenized_prediction, prediction, label, query=None", one)
    assert got == {
        "tokenized_prediction": [1, 2], "prediction": "one", "label": "5", "query": "q",
    }  # fmt: skip
    text = Group(("one",), None, "5", "q", "p", None, {})
    got = given("tokenized_prediction, prediction, label", text)
    assert got["tokenized_prediction"] is None


def test_asynchronous_functions_of_a_process_run_in_one_loop():
    loops = []

    async def rate():
        loops.append(asyncio.get_running_loop())
        return 1.0

    assert [calls.awaited(rate()), calls.awaited(rate()), calls.awaited(2.0)] == [1.0, 1.0, 2.0]
    assert loops[0] is loops[1]

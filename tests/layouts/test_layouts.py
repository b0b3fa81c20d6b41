"""Public data sets go through `prompts` as they are, and their golds tell right from wrong."""

import json
import sqlite3

import datasets
import pyarrow.parquet as pq
import pytest

from rlvr_cli import registry

NAMES = (
    *("gsm8k", "math", "dapo", "numina-cot", "numina-1.5", "open-r1", "deepscaler", "big-math"),
    *("mbpp", "mbpp-sanitized", "spider", "bird", "mmlu-pro", "mmlu", "arc", "gpqa", "geometry3k"),
    *("aime", "olympiad", "search-r1", "flash-rag", "nq-open", "hotpot-qa", "trivia-qa", "squad"),
    *("ifeval", "rlvr-ifeval", "rlvr-gsm", "humaneval", "leetcode", "apps", "code-contests"),
    *("livecodebench", "kodcode", "synthetic", "synthetic-math", "medqa"),
    *("mbpp-plus", "openbookqa", "aqua", "medmcqa", "orz"),
)


@pytest.fixture
def databases(tmp_path):
    """A folder of databases as Spider has them."""
    path = tmp_path / "database" / "pets" / "pets.sqlite"
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE pet (name TEXT, age INTEGER)")
        connection.executemany("INSERT INTO pet VALUES (?, ?)", [("Rex", 3), ("Tom", 5)])
    return path.parent.parent


@pytest.fixture
def made(rlvr, tmp_path, databases, samples):
    """Makes prompts of a sample, in Parquet or JSON lines; the run, and the rows that it wrote."""

    def make(name, *words, ending=".parquet"):
        table = samples.SAMPLES[name][0]
        path = tmp_path / f"{name.partition('.')[0]}{ending}"
        if ending == ".parquet":
            pq.write_table(table, path)
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
        if name in ("spider", "bird"):
            words = (*words, "--layout", f"spider:databases={databases}")
        ran = rlvr("prompts", path, *words, "--out", tmp_path / "prompts")
        assert ran.code == 0, ran.err
        parts = sorted((tmp_path / "prompts").glob("*.parquet"))  # images are in a folder there
        return ran, pq.read_table(parts).to_pylist()

    return make


@pytest.mark.parametrize("name", NAMES)
def test_json_lines_give_the_prompts_of_the_parquet_file(rlvr, tmp_path, made, name):
    _, rows = made(name, ending=".jsonl")
    (tmp_path / "prompts").rename(tmp_path / "other")
    assert made(name)[1] == rows


@pytest.mark.parametrize("name", NAMES)
def test_a_public_data_set_is_scored_as_it_is(request, rlvr, tmp_path, samples, made, name):
    table, layout, verifier, right = samples.SAMPLES[name]
    if verifier == "ifeval":
        pytest.importorskip("lm_eval", reason="needs lm-eval")
        request.getfixturevalue("punkt")
    ran, rows = made(name)
    if name not in ("spider", "bird"):
        assert f"taken as {layout}: " in ran.err
    assert len(rows) == len(table)
    assert {row["verifier"].partition(":")[0] for row in rows} == {verifier}
    completions = [
        {"id": row["prompt_id"], "completion": text}
        for row, solved in zip(rows, right, strict=True)
        for text in (solved, samples.WRONG)
    ]
    path = tmp_path / "completions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in completions))
    out = tmp_path / "imported"
    words = ("--prompts", tmp_path / "prompts", "--out", out)
    assert rlvr("import", path, *words).code == 0
    ran = rlvr("score", out / "rollouts", "--allow-code-execution", "--unsafe-no-sandbox")
    assert ran.code == 0, ran.err
    scores = pq.read_table(out / "scores").to_pylist()
    assert [row["reward"] for row in scores] == [1.0, 0.0] * len(table), scores


@pytest.mark.parametrize("name", ["numina-cot", "open-r1"])
def test_the_prompt_is_the_problem_where_messages_end_with_the_solution(made, name):
    _, (row,) = made(name)
    assert json.loads(row["messages"]).startswith("What is ") and "boxed" not in row["messages"]


def test_the_options_are_in_the_prompt_and_for_the_verifier(made):
    _, (row,) = made("mmlu-pro")
    lines = json.loads(row["messages"]).splitlines()
    assert lines[:3] == ["Which of these is a prime number?", "", "A. 1"]
    assert lines[-2:] == ["I. 13", "J. 15"] and row["answer"] == "I"
    assert len(json.loads(row["extra"])["options"]) == 10


def test_a_context_stands_above_the_question(made):
    _, (row,) = made("squad")
    lines = json.loads(row["messages"]).split("\n\n")
    assert lines == ["Emma was published in December 1815.", "When was Emma published?"]
    assert "context" not in json.loads(row["extra"])


def test_paragraphs_stand_above_the_question_if_one_asks_for_them(made, tmp_path):
    _, (row,) = made("hotpot-qa")
    assert json.loads(row["messages"]).startswith("Were Emma")
    (tmp_path / "prompts").rename(tmp_path / "without")
    _, (row,) = made("hotpot-qa", "--layout", "question-answering:paragraphs=true")
    assert json.loads(row["messages"]).startswith(
        "Emma\nEmma is by Jane Austen. It is long.\n\nPersuasion\nSo is Persuasion.\n\nWere Emma"
    )


def test_a_question_without_an_answer_is_refused(samples, refused, jsonl, tmp_path):
    (row,) = samples.SQUAD.to_pylist()
    path = jsonl(row | {"answers": {"text": [], "answer_start": []}}, name="squad_v2.jsonl")
    assert "it has no answer" in refused(3, "prompts", path, "--out", tmp_path / "made")


def test_instructions_without_their_arguments_are_refused(samples, refused, jsonl, tmp_path):
    (row,) = samples.IFEVAL.to_pylist()
    path = jsonl(row | {"kwargs": [{}]}, name="ifeval.jsonl")
    err = refused(3, "prompts", path, "--out", tmp_path / "made")
    assert "it has 2 instructions and 1 `kwargs`" in err


def test_messages_that_end_with_an_answer_are_read_up_to_it(samples, rlvr, jsonl, tmp_path):
    (row,) = samples.RLVR_GSM.to_pylist()
    row["messages"].append({"role": "assistant", "content": "It is 42."})
    path = jsonl(row, row | {"dataset": "tulu"}, name="gsm.jsonl")
    ran = rlvr("prompts", path, "--out", tmp_path / "made")
    assert ran.code == 0 and "1 prompt without a verifier" in ran.err
    rows = pq.read_table(tmp_path / "made").to_pylist()
    assert all("It is 42" not in r["messages"] for r in rows)
    assert [r["verifier"] for r in rows] == ["math:unanchored=true", None]


def test_the_tables_of_its_database_are_in_the_prompt_of_a_query(made):
    _, (row,) = made("spider")
    prompt = json.loads(row["messages"])
    assert "CREATE TABLE pet (name TEXT, age INTEGER);" in prompt
    assert "How many pets are there?" in prompt and "SELECT" not in prompt


def test_the_function_of_a_program_is_named_by_its_tests(made):
    _, (row,) = made("mbpp")
    assert "assert double(2) == 4" in json.loads(row["messages"])
    assert "assert double(-3)" not in row["messages"] and "assert double(-3)" in row["answer"]


def test_the_source_of_a_row_is_its_source(made):
    assert made("dapo")[1][0]["source"] == "math_dapo"


def test_gsm8k_as_verl_prepares_it_keeps_its_splits_apart(rlvr, jsonl, tmp_path):
    """verl's examples/data_preprocess/gsm8k.py numbers the rows of each split from 0."""
    for split, question in (("train", "1 + 1?"), ("test", "2 + 2?")):
        row = {
            "data_source": "openai/gsm8k",
            "prompt": [{"role": "user", "content": f"{question} Answer after ####."}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": "2"},
            "extra_info": {"split": split, "index": 0, "answer": "#### 2", "question": question},
        }
        ran = rlvr("prompts", jsonl(row, name=f"{split}.jsonl"), "--out", tmp_path / split)
        assert ran.code == 0 and "taken as verl" in ran.err
    words = ("--model", "builtin", "--prompts", tmp_path / "train", "--heldout", tmp_path / "test")
    (tmp_path / "chat.jinja").write_text("{{ messages[-1]['content'] }}")
    words += ("--template", tmp_path / "chat.jinja", "--prompts-per-step", 1)
    ran = rlvr("train", *words, "--dry-run")
    assert ran.code == 0, ran.err


def test_prompts_of_a_layout_that_have_no_verifier_are_counted(rlvr, samples, jsonl, tmp_path):
    (row,) = samples.DAPO.to_pylist()
    path = jsonl(row, row | {"data_source": "voc", "ability": "voc"}, name="voc.jsonl")
    ran = rlvr("prompts", path, "--out", tmp_path / "made")
    assert "1 prompt without a verifier: name one with --verifier" in ran.err


def test_gsm8k_with_boxed_solutions_that_datasets_saved_is_read(rlvr, refused, tmp_path):
    """As in https://github.com/huggingface/datasets/issues/7503"""
    solved = {"problem": "1 + 1?", "solution": "It is\n\\boxed{2}"}
    rows = datasets.Dataset.from_list([solved])
    datasets.DatasetDict(train=rows, test=rows).save_to_disk(tmp_path / "saved")
    assert "--split train" in refused(2, "prompts", tmp_path / "saved", "--out", tmp_path / "made")
    words = ("--split", "test", "--out", tmp_path / "made")
    ran = rlvr("prompts", tmp_path / "saved", *words)
    assert ran.code == 0 and "taken as math" in ran.err
    (row,) = pq.read_table(tmp_path / "made").to_pylist()
    assert (row["answer"], row["verifier"], row["source"]) == ("2", "math", "saved-test")


def test_databases_that_are_not_named_are_asked_for(samples, refused, tmp_path):
    pq.write_table(samples.SPIDER, tmp_path / "spider.parquet")
    err = refused(2, "prompts", tmp_path / "spider.parquet", "--out", tmp_path / "made")
    assert "--layout spider:databases=DIR" in err


def test_none_reads_the_columns_as_they_are(rlvr, made):
    ran, rows = made("gsm8k", "--layout", "none")
    assert "taken as" not in ran.err
    assert rows[0]["answer"].endswith("#### 21") and rows[0]["verifier"] is None


@pytest.mark.parametrize("flag", ["--prompt-column=question", "--answer-column=answer"])
def test_columns_that_are_named_are_no_layout(made, refused, tmp_path, flag):
    ran, rows = made("gsm8k", flag)
    assert "taken as" not in ran.err and rows[0]["answer"].endswith("#### 21")
    words = ("--layout", "gsm8k", "--out", tmp_path / "other")
    assert "--layout is gsm8k" in refused(2, "prompts", tmp_path / "gsm8k.parquet", flag, *words)


@pytest.mark.parametrize("verifier", ["number", "0.9*math+0.1*format"])
def test_another_verifier_replaces_the_one_of_the_layout(made, verifier):
    _, rows = made("gsm8k", "--verifier", verifier)
    assert {row["verifier"] for row in rows} == {verifier}


def test_rows_without_a_verifiable_answer_are_refused_or_counted(
    samples, rlvr, refused, jsonl, tmp_path
):
    (good,) = samples.NUMINA.to_pylist()
    bad = [
        good | {"answer": "proof"},
        good | {"answer": "notfound"},
        good | {"question_type": "proof"},
        good | {"solution_is_valid": "Incomplete"},
        good | {"answer": None},
    ]
    path, out = jsonl(good, *bad, name="numina.jsonl"), tmp_path / "made"
    err = refused(3, "prompts", path, "--out", out)
    assert "5 of 6 rows cannot be prompts, row 2 the first" in err and "--drop-unusable" in err
    ran = rlvr("prompts", path, "--drop-unusable", "--out", out, "--json")
    summary = json.loads(ran.out)
    assert (summary["prompts"], summary["unusable"]) == (1, 5)
    assert "left out 1 as its `answer` is `proof`" in ran.err


def test_a_row_whose_answer_is_no_option_is_refused(samples, refused, jsonl, tmp_path):
    (row,) = samples.MMLU_PRO.to_pylist()
    path = jsonl(row | {"answer": "K"}, name="mmlu.jsonl")
    err = refused(3, "prompts", path, "--out", tmp_path / "made")
    assert "its answer `K` is none of its options" in err


def test_letters_before_options_are_not_doubled(made):
    _, (row,) = made("aqua")
    assert json.loads(row["messages"]).splitlines()[2:5] == ["A. 18", "B. 20", "C. 21"]


def test_the_right_option_of_the_authors_files_counts_from_one(
    samples, rlvr, refused, jsonl, tmp_path
):
    (row,) = samples.MEDMCQA.to_pylist()
    cops = {"a": 4, "b": 1, "c": None}
    path = jsonl(*(row | {"id": i, "cop": cop} for i, cop in cops.items()), name="train.jsonl")
    words = ("prompts", path, "--out", tmp_path / "made")
    assert "hint: count from 1: --layout medmcqa:first=1" in refused(3, *words)
    ran = rlvr(*words, "--layout", "medmcqa:first=1", "--drop-unusable")
    assert ran.code == 0, ran.err
    assert [row["answer"] for row in pq.read_table(tmp_path / "made").to_pylist()] == ["D", "A"]


def test_a_row_of_two_turns_is_read_as_its_columns_are(samples, rlvr, tmp_path):
    (row,) = samples.OPEN_REASONER_ZERO.to_pylist()
    path = tmp_path / "orz.json"
    path.write_text(json.dumps([[row["0"], row["1"]]] * 2))
    ran = rlvr("prompts", path, "--out", tmp_path / "made")
    assert ran.code == 0 and "taken as open-reasoner-zero: " in ran.err, ran.err
    rows = pq.read_table(tmp_path / "made").to_pylist()
    assert [(json.loads(row["messages"]), row["answer"]) for row in rows] == [
        ("What is $6 * 7$?", "42")
    ] * 2


@pytest.mark.parametrize("written", [json.dumps, str])
def test_tests_that_a_text_lists_are_read_one_by_one(samples, rlvr, jsonl, tmp_path, written):
    (row,) = samples.MBPP_PLUS.to_pylist()
    path = jsonl(row | {"test_list": written(row["test_list"])}, name="mbpp.jsonl")
    assert rlvr("prompts", path, "--out", tmp_path / "made").code == 0
    (made,) = pq.read_table(tmp_path / "made").to_pylist()
    assert made["answer"].startswith("assert double(2) == 4\ninputs = [[-3], [7]]")


def test_a_list_of_tests_that_is_none_is_refused(samples, refused, jsonl, tmp_path):
    (row,) = samples.MBPP_PLUS.to_pylist()
    path = jsonl(row | {"test_list": "assert double(2) == 4"}, name="mbpp.jsonl")
    err = refused(3, "prompts", path, "--out", tmp_path / "made")
    assert "its `test_list` is no list: assert double(2) == 4" in err


def test_the_last_turn_is_offered_as_the_gold(rlvr, refused, jsonl, tmp_path):
    turns = [{"role": "user", "content": "6 * 7?"}, {"role": "assistant", "content": "42"}]
    words = ("prompts", jsonl({"messages": turns}, name="sft.jsonl"), "--out", tmp_path / "made")
    err = refused(3, *words)
    command = "`rlvr prompts ... --answer-column messages --drop-answer-turn`"
    assert f"or take the last turn of `messages`: {command}" in err
    assert rlvr(*words, "--answer-column", "messages", "--drop-answer-turn").code == 0
    (row,) = pq.read_table(tmp_path / "made").to_pylist()
    assert row["answer"] == "42"


def test_questions_and_answers_without_marks_are_no_gsm8k(samples, rlvr, jsonl, tmp_path):
    rows = [*samples.GSM8K.to_pylist(), {"question": "1 + 1?", "answer": "2"}]
    ran = rlvr("prompts", jsonl(*rows), "--out", tmp_path / "made")
    assert ran.code == 0 and "taken as" not in ran.err


def test_a_layout_may_be_a_function_of_a_file(rlvr, jsonl, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "def build(*, gold='a'):\n"
        "    def read(row):\n"
        "        return {'prompt': row['q'], 'answer': row[gold], 'verifier': 'number'}\n"
        "    return read\n"
    )
    ran = rlvr("prompts", jsonl({"q": "1 + 1?", "a": "2"}), "--layout", "mine.py:build")
    assert ran.code == 0, ran.err
    (row,) = pq.read_table(tmp_path / "prompts").to_pylist()
    assert (row["answer"], row["verifier"]) == ("2", "number")


def test_every_layout_is_recognised_in_a_sample_and_says_what_it_takes(samples):
    assert set(samples.SAMPLES) == set(NAMES)
    assert {layout for _, layout, _, _ in samples.SAMPLES.values()} == set(
        registry.names("layouts")
    )
    for name in registry.names("layouts"):
        assert registry.module("layouts", name).SAYS
    for name, (table, layout, _, _) in samples.SAMPLES.items():
        rows = table.to_pylist()
        known = [
            n for n in registry.names("layouts") if registry.module("layouts", n).recognises(rows)
        ]
        assert known == [layout], name

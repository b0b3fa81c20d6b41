"""Prompts that ask the same: within a set, and in a training set and a held-out one."""

import json

import pyarrow.parquet as pq
import pytest

from rlvr_cli.stages import overlap


def chat(*turns):
    return json.dumps([{"role": role, "content": content} for role, content in turns])


def test_white_space_roles_and_system_messages_do_not_matter():
    plain = json.dumps("What is  1 + 1?\n")
    assert overlap.text_of(plain) == "What is 1 + 1?"
    assert overlap.text_of(chat(("user", "What is 1\n+ 1?"))) == overlap.text_of(plain)
    system = chat(("system", "Be brief."), ("user", "What is 1 + 1?"))
    assert overlap.text_of(system) == overlap.text_of(plain)
    assert overlap.text_of(json.dumps("what is 1 + 1?")) != overlap.text_of(plain)


def test_an_overlap_is_by_text_or_by_an_id_that_names_the_prompt():
    training = [("a", '"1?"'), ("b", '"2?"'), ("set-000003", '"3?"')]
    heldout = [("x", '"1? "'), ("b", '"other"'), ("set-000003", '"4?"'), ("y", '"5?"')]
    found = overlap.between(training, heldout)
    assert (found.text, found.id_alone, found.prompts, found.example) == (1, 1, 2, "x")
    assert overlap.between(training, [("z", '"9?"')]).prompts == 0


@pytest.fixture
def repeating(jsonl):
    return jsonl(
        {"prompt": "1 + 1?", "answer": "2"},
        {"prompt": "1  + 1?", "answer": "2"},
        {"prompt": "1 + 1?", "answer": "3"},
        {"prompt": "2 + 2?", "answer": "4"},
    )


def test_repeated_prompts_are_counted_and_stay(rlvr, repeating, tmp_path):
    ran = rlvr("prompts", repeating, "--out", tmp_path / "made")
    said = "2 of 4 prompts repeat the text of an earlier one, 1 of them with another answer"
    assert ran.code == 0 and said in ran.err and "--drop-duplicates" in ran.err
    assert len(pq.read_table(tmp_path / "made")) == 4


def test_repeated_prompts_are_left_out_where_that_is_asked_for(rlvr, repeating, tmp_path):
    ran = rlvr("prompts", repeating, "--drop-duplicates", "--out", tmp_path / "made", "--json")
    summary = json.loads(ran.out)
    assert (summary["prompts"], summary["duplicates"]) == (2, 2)
    assert pq.read_table(tmp_path / "made")["answer"].to_pylist() == ["2", "4"]


def test_a_limit_counts_the_prompts_that_are_left(rlvr, repeating, tmp_path):
    words = ("--drop-duplicates", "--limit", 2, "--out", tmp_path / "made")
    assert rlvr("prompts", repeating, *words).code == 0
    assert pq.read_table(tmp_path / "made")["answer"].to_pylist() == ["2", "4"]


def test_a_task_has_no_layout(refused, tmp_path):
    words = ("--layout", "gsm8k", "--out", tmp_path / "made")
    assert "is a task, --layout says" in refused(2, "prompts", "task:expression", *words)


def test_prompts_of_another_directory_are_left_out(rlvr, repeating, jsonl, tmp_path):
    heldout = jsonl({"id": "h", "prompt": "2 + 2?", "answer": "4"}, name="heldout.jsonl")
    rlvr("prompts", heldout, "--out", tmp_path / "heldout")
    words = ("--without", tmp_path / "heldout", "--json")
    ran = rlvr("prompts", repeating, *words, "--out", tmp_path / "made")
    assert json.loads(ran.out)["withheld"] == 1 and "left out 1 that are" in ran.err
    assert "2 + 2?" not in "".join(pq.read_table(tmp_path / "made")["messages"].to_pylist())


def test_nothing_left_is_an_error(rlvr, refused, repeating, tmp_path):
    rlvr("prompts", repeating, "--out", tmp_path / "heldout")
    words = ("--without", tmp_path / "heldout", "--out", tmp_path / "made")
    assert "all 4 prompts are in" in refused(3, "prompts", repeating, *words)

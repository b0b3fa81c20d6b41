"""`score` and `prompts` with several verifiers of a completion, and with one for each source."""

import json

import pyarrow.parquet as pq
import pytest

ROWS = [
    {"id": "a", "source": "openai/gsm8k", "prompt": "1+1?", "answer": "2"},
    {"id": "b", "source": "aime_2024", "prompt": "2+1?", "answer": "3"},
    {"id": "c", "source": "arc", "prompt": "?\nA. 1\nB. 2", "answer": "B", "options": ["1", "2"]},
]
TEXTS = {
    "a": ["2", "3"],
    "b": ["\\boxed{3}", "3"],
    "c": ["The answer is (B)", "The answer is (A)"],
}


@pytest.fixture
def imported(rlvr, jsonl, tmp_path):
    """Prompts of three sources and two completions of each."""
    assert rlvr("prompts", jsonl(*ROWS), "--out", tmp_path / "prompts").code == 0
    texts = [{"id": name, "completion": text} for name, own in TEXTS.items() for text in own]
    words = ("--prompts", tmp_path / "prompts", "--out", tmp_path / "in")
    assert rlvr("import", jsonl(*texts, name="texts.jsonl"), *words).code == 0
    return tmp_path / "in/rollouts"


def scores_of(rlvr, imported, verifier, out, *words):
    ran = rlvr("score", imported, "--verifier", verifier, "--out", out, *words)
    assert ran.code == 0, ran.err
    return pq.read_table(out).to_pylist()


BY = "by:of={openai/gsm8k=number,aime*=0.9*number+0.1*format,arc=any:of=[choice,math]}"


def test_each_source_is_scored_by_its_verifier_stored_or_given(rlvr, jsonl, imported, tmp_path):
    rows = scores_of(rlvr, imported, BY, tmp_path / "given")
    assert [row["reward"] for row in rows] == [1, 0, 1, 0.9, 1, 0]
    assert rows[3]["reward_format"] == 0 and rows[4]["reward_choice"] == 1
    assert rows[0]["reward_format"] is None
    made = tmp_path / "bound"
    assert rlvr("prompts", tmp_path / "prompts", "--verifier", BY, "--out", made).code == 0
    stored = [row["verifier"] for row in pq.read_table(made).to_pylist()]
    assert stored[0] == "number" and stored[2].startswith("any:of=[choice,math]")
    ran = rlvr("score", imported, "--prompts", made, "--out", tmp_path / "own")
    assert ran.code != 0  # the completions are of other prompts
    again = rlvr("score", imported, "--verifier", BY, "--out", tmp_path / "given")
    assert again.code == 0 and "nothing left to do" in again.err


def test_a_source_without_a_verifier_is_refused_before_anything_is_scored(
    rlvr, imported, refused, tmp_path
):
    for words in (
        ("score", imported, "--out", tmp_path / "s"),
        ("score", imported, "--out", tmp_path / "s", "--dry-run"),
        ("prompts", tmp_path / "prompts", "--out", tmp_path / "s"),
    ):
        said = refused(3, *words, "--verifier", "by:of={arc=choice,aime_2024=number}")
        assert "no verifier is named for the source `openai/gsm8k`; those named are" in said
    assert not (tmp_path / "s").exists()


def test_all_of_needs_each_and_any_of_one(rlvr, imported, tmp_path):
    spec = "of=[number,format:form=boxed]"
    both = scores_of(rlvr, imported, f"all:{spec}", tmp_path / "all", "--max-error-rate", 1)
    assert [row["reward"] for row in both[:4]] == [0, 0, 1, 0]
    assert [row["status"] for row in both[4:]] == ["bad_gold"] * 2  # B is no number
    either = scores_of(rlvr, imported, f"any:{spec}", tmp_path / "any", "--max-error-rate", 1)
    assert [row["reward"] for row in either[:4]] == [1, 0, 1, 1]
    assert [row["reward_number"] for row in either[:4]] == [1, 0, 1, 1]


def test_parts_that_are_isolated_or_functions_of_a_group_are_joined_too(rlvr, imported, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "def short(prompts, completions, **kwargs):\n"
        "    return [float(len(str(c)) < 60) for c in completions]\n"
    )
    spec = f'all:of=["{path}:short","math:unanchored=true"]'
    rows = scores_of(rlvr, imported, spec, tmp_path / "s")
    assert [row["reward"] for row in rows[:4]] == [1, 0, 1, 1]
    assert rows[0]["reward_short"] == 1 and rows[0]["reward_math"] == 1


def test_a_join_that_executes_programs_needs_permission(refused, imported, tmp_path):
    for spec in ("any:of=[number,code]", "by:of={arc=code,*=number}"):
        said = refused(2, "score", imported, "--verifier", spec, "--out", tmp_path / "s")
        assert "`code` executes what a model wrote" in said


def test_rows_with_several_golds_are_right_where_each_is_met(rlvr, jsonl, tmp_path):
    """As open-instruct stores them: lists of data sets, and of ground truths."""
    rows = [
        {"id": "a", "prompt": "?", "dataset": ["gsm8k"], "answer": ["2"]},
        {"id": "b", "prompt": "?", "dataset": ["gsm8k", "mc"], "answer": ["2", "B"]},
        {"id": "c", "prompt": "?", "dataset": ["gsm8k", "mc"], "answer": ["2"]},
    ]
    verifier = "by:column=dataset,of={gsm8k=number,mc=choice}"
    source = jsonl(*rows)
    words = ("--verifier", verifier, "--out", tmp_path / "prompts")
    assert rlvr("prompts", source, *words).code == 0
    texts = [
        {"id": "a", "completion": "2"}, {"id": "b", "completion": "2. The answer is (B) 2"},
        {"id": "b", "completion": "2. The answer is (A) 2"}, {"id": "c", "completion": "2"},
    ]  # fmt: skip
    words = ("--prompts", tmp_path / "prompts", "--out", tmp_path / "in")
    assert rlvr("import", jsonl(*texts, name="t.jsonl"), *words).code == 0
    words = ("--max-error-rate", 1, "--out", tmp_path / "s")
    assert rlvr("score", tmp_path / "in/rollouts", *words).code == 0
    rows = pq.read_table(tmp_path / "s").to_pylist()
    assert [row["reward"] for row in rows] == [1, 1, 0, None]
    assert rows[3]["reason"] == "it is no list with a gold for each part"


def test_doctor_names_golds_that_one_part_cannot_read(rlvr, imported, tmp_path):
    for join in ("any", "all"):
        ran = rlvr("doctor", tmp_path / "prompts", "--verifier", f"{join}:of=[math,number]")
        assert "cannot read 1 of 3 golds: `c` `B`: it is no number" in ran.out
    ran = rlvr("doctor", tmp_path / "prompts", "--verifier", BY)
    assert "all 3 are read by their verifiers" in ran.out


def test_votes_are_counted_by_the_verifier_of_each_source(rlvr, imported, tmp_path):
    scores_of(rlvr, imported, BY, tmp_path / "s")
    ran = rlvr("eval-passk", tmp_path / "s", "--k", "1,2", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["metrics"]["pass@1"][0] == pytest.approx(0.5 + 1 / 6)

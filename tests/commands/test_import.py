import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from rlvr_cli.storage import lineage
from rlvr_cli.viewer import screen
from rlvr_cli.viewer.directories import DirectoryIndex


def test_prompts_that_are_null_are_not_proposed_as_ids(refused, tmp_path):
    rows = [{"prompt": "a", "completion": "4"}, {"prompt": None, "completion": "5"}]
    for name, first in (("half", 0), ("none", 1)):
        text = "".join(json.dumps(row) + "\n" for row in rows[first:])
        (tmp_path / f"{name}.jsonl").write_text(text)
        said = refused(3, "import", tmp_path / f"{name}.jsonl", "--out", tmp_path / "out")
        assert f"no `prompt` in row {2 - first}" in said and "--id-column prompt" not in said
    named = ["--id-column", "prompt", "--out", tmp_path / "out"]
    said = refused(3, "import", tmp_path / "none.jsonl", *named)
    assert "has a column `prompt`, and no value in it" in said


def test_a_file_becomes_prompts_rollouts_and_scores(rlvr, known, tmp_path):
    out = tmp_path / "made"
    ran = rlvr("import", known / "rows.jsonl", "--out", out)
    assert (ran.code, ran.out) == (0, f"{out / 'scores'}\n")
    assert ran.err.splitlines() == [
        "import: correct by `correct`",
        f"import: `{out / 'prompts'}` holds 2 prompts",
        f"import: `{out / 'rollouts'}` holds 8 rollouts",
        f"import: `{out / 'scores'}` holds 8 scores",
    ]
    prompt = pq.read_table(out / "prompts").to_pylist()[0]
    assert (prompt["prompt_id"], prompt["messages"], prompt["answer"]) == ("a", '"5="', "5")
    rollouts = pq.read_table(out / "rollouts")
    assert rollouts["completion"].to_pylist()[:4] == ["2+3", "1+1", "9-4", "5"]
    assert rollouts["token_ids"].null_count == 8
    assert pq.read_table(out / "scores")["reward"].to_pylist() == [1, 0, 1, 0, 1, 0, 0, 0]


def test_a_model_gives_the_token_ids_of_the_text(known, loaded):
    for row in pq.read_table(known / "rollouts").to_pylist():
        assert loaded.tokenizer.decode(row["token_ids"]) == row["completion"] + "<eos>"


def test_a_completion_of_messages_is_the_text_they_hold(rlvr, jsonl, tmp_path):
    said = [{"role": "assistant", "content": "2+3"}]
    rows = [{"id": "a", "prompt": "5=", "completion": said, "correct": True}]
    rows += [{"id": "b", "prompt": "6=", "completion": [said, said], "correct": [True, False]}]
    assert rlvr("import", jsonl(*rows), "--out", tmp_path).code == 0
    rollouts = pq.read_table(tmp_path / "rollouts")
    assert rollouts["completion"].to_pylist() == ["2+3"] * 3


def test_a_prompt_of_messages_needs_a_chat_template(refused, jsonl, tmp_path):
    chat = [{"role": "user", "content": "5="}]
    rows = jsonl({"id": "a", "prompt": chat, "completion": "2+3", "correct": True})
    err = refused(3, "import", rows, "--out", tmp_path, "--model", "builtin")
    assert "prompt `a` is a list of messages" in err


def test_json_is_one_object_with_the_path(rlvr, known, tmp_path):
    summary = json.loads(rlvr("import", known / "rows.jsonl", "--out", tmp_path, "--json").out)
    assert summary["path"] == str(tmp_path / "scores")
    assert (summary["prompts"], summary["rollouts"], summary["scores"]) == (2, 8, 8)


def test_the_directory_is_called_imported_unless_named(rlvr, known, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert rlvr("import", known / "rows.jsonl").out == "imported/scores\n"


def test_running_again_changes_nothing_and_says_so(rlvr, known, tmp_path, files_of):
    words = ("import", known / "rows.jsonl", "--out", tmp_path)
    rlvr(*words)
    before = files_of(tmp_path / "scores")
    ran = rlvr(*words)
    assert ran.code == 0 and files_of(tmp_path / "scores") == before
    assert "nothing left to do" in ran.err


def test_another_policy_is_refused_with_the_old_and_the_new_one(rlvr, refused, known, tmp_path):
    rlvr("import", known / "rows.jsonl", "--out", tmp_path)
    words = ("--out", tmp_path, "--model", "builtin")
    assert "tokenizer was None, is " in refused(2, "import", known / "rows.jsonl", *words)


def test_one_list_a_row_is_one_completion_each(rlvr, jsonl, known, tmp_path):
    rows = [
        {"id": "a", "prompt": "5=", "answer": "5", "completions": ["2+3", "1+1", "9-4", "5"],
         "correct": [True, False, "true", 0], "finish_reason": "stop"},
        {"id": "b", "prompt": "6=", "answer": "6", "completions": ["3+3", "1+1", "9-4", "6"],
         "correct": [1, "false", False, "0"], "finish_reason": "stop"},
    ]  # fmt: skip
    rlvr("import", jsonl(*rows), "--out", tmp_path / "made", "--model", "builtin")
    for kind in ("prompts", "rollouts", "scores"):
        assert pq.read_table(tmp_path / "made" / kind).equals(pq.read_table(known / kind))


def test_completions_of_a_prompt_are_brought_together(rlvr, jsonl, tmp_path):
    names = ["a", "b", "a", "b", "b"]
    rows = [{"id": name, "completion": str(i), "correct": True} for i, name in enumerate(names)]
    rlvr("import", jsonl(*rows), "--out", tmp_path)
    table = pq.read_table(tmp_path / "rollouts")
    assert table["prompt_id"].to_pylist() == ["a", "a", "b", "b", "b"]
    assert table["sample_index"].to_pylist() == [0, 1, 0, 1, 2]
    assert table["completion"].to_pylist() == ["0", "2", "1", "3", "4"]


def test_only_a_completion_that_is_known_to_have_ended_gets_an_end(rlvr, jsonl, tmp_path, loaded):
    reasons = ["end_turn", "max_tokens", None, "STOP"]
    rows = [{"id": "a", "prompt": "5=", "completion": "2+3", "stop_reason": r} for r in reasons]
    ran = rlvr("import", jsonl(*rows), "--model", "builtin", "--out", tmp_path)
    table = pq.read_table(tmp_path / "rollouts")
    assert table["finish_reason"].to_pylist() == ["stop", "length", None, "stop"]
    texts = [loaded.tokenizer.decode(ids) for ids in table["token_ids"].to_pylist()]
    assert texts == ["2+3<eos>", "2+3", "2+3", "2+3<eos>"]
    assert "1 of 4 completions do not say why they ended" in ran.err


def test_a_file_without_reasons_has_unknown_ones_in_all_that_reads_them(rlvr, jsonl, tmp_path):
    rows = [{"id": "a", "prompt": "5=", "completion": c, "correct": True} for c in ("2+3", "5")]
    assert rlvr("import", jsonl(*rows), "--out", tmp_path / "made").code == 0
    scores, page = tmp_path / "made" / "scores", tmp_path / "page.html"
    rollouts = pq.read_table(tmp_path / "made" / "rollouts")
    assert rollouts["finish_reason"].to_pylist() == [None, None]
    assert "truncated" not in json.loads(rlvr("diversity", scores, "--json").out)["metrics"]
    assert rlvr("report", scores, "--out", page).code == 0
    assert "0 (2 unknown) of 2 truncated" in page.read_text()
    assert "cut or not is unknown" in rlvr("doctor", scores).out
    index = DirectoryIndex(lineage.find(scores))
    assert "end unknown" in screen.facts(index, 0, index.detail(0), np.ones(2, bool), 80).plain
    assert rlvr("export", scores, "--out", tmp_path / "out.jsonl").code == 0


def test_a_word_that_is_no_reason_is_refused_with_its_place(rlvr, refused, jsonl, tmp_path):
    rows = [{"id": "a", "completion": "5", "finish_reason": r} for r in ("stop", "tired")]
    words = ("import", jsonl(*rows), "--out", tmp_path / "made")
    err = refused(3, *words)
    assert "rows.jsonl` row 2 has `finish_reason` = `tired`" in err
    assert rlvr(*words, "--finish-column", "none").code == 0
    rollouts = pq.read_table(tmp_path / "made" / "rollouts")
    assert rollouts["finish_reason"].to_pylist() == [None, None]


def test_other_reasons_are_another_directory(rlvr, refused, jsonl, tmp_path):
    row = {"id": "a", "completion": "5", "finish_reason": "stop"}
    words = ("import", jsonl(row), "--out", tmp_path / "made")
    assert rlvr(*words).code == 0
    jsonl(row | {"finish_reason": "length"})
    assert "other parameters" in refused(2, *words)


def test_text_without_verdicts_ends_at_the_rollouts(rlvr, jsonl, tmp_path):
    ran = rlvr("import", jsonl({"id": "a", "completion": "2+3"}), "--out", tmp_path)
    assert ran.out == f"{tmp_path / 'rollouts'}\n"
    assert not (tmp_path / "scores").exists()


def test_imported_text_goes_through_every_later_stage(rlvr, known, tmp_path):
    root = shutil.copytree(known, tmp_path / "root")
    for words in (
        ("eval-passk", root / "scores"),
        ("ucc", root / "scores"),
        ("advantage", root / "scores", "--algo", "quatro", "--out", root / "by-quatro"),
        ("train-step", root / "by-quatro", "--model", "builtin", "--out", root / "trained"),
        ("check", root / "trained"),
    ):
        assert rlvr(*words).code == 0, words


@pytest.mark.parametrize(
    ("rows", "words", "message"),
    [
        ([], (), "no rows"),
        ([{"id": "a", "prompt": "5="}], (), "no completions; it has id, prompt"),
        ([{"completion": "5"}], (), "--id-column"),
        ([{"id": "a", "completion": "5"}], ("--completion-column", "nope"), "it has id, compl"),
        ([{"id": "a", "completion": "5"}], ("--prompt-column", "nope"), "--prompt-column"),
        ([{"id": "a", "completion": "5"}], ("--answer-column", "nope"), "--answer-column"),
        ([{"id": "a", "completion": "5"}], ("--reward-column", "nope"), "--reward-column"),
        ([{"id": "a", "completion": "5"}], ("--model", "nope"), "`nope`"),
        ([{"id": "a", "completion": "5", "correct": "maybe"}], (), "`correct` = `maybe`"),
    ],
)
def test_a_bad_file_is_refused_where_it_is_bad(refused, jsonl, tmp_path, rows, words, message):
    assert message in refused(3, "import", jsonl(*rows), *words, "--out", tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_text_that_is_no_unicode_is_refused_by_its_row(refused, jsonl, tmp_path):
    source = jsonl({"id": "a", "completion": "\ud800", "correct": True})
    assert str(source) in refused(3, "import", source, "--out", tmp_path / "made")


def test_a_missing_file_is_named(refused, tmp_path):
    assert "does not exist" in refused(3, "import", tmp_path / "nope.jsonl")


@pytest.fixture
def answered(rlvr, jsonl, tmp_path):
    """Prompts with golds and verifiers, and a file of completions of them."""
    rows = [
        {"id": "a", "prompt": "5=", "answer": "5", "verifier": "expression", "source": "s"},
        {"id": "b", "prompt": "6=", "answer": "6", "verifier": "expression", "source": "t"},
    ]
    assert rlvr("prompts", jsonl(*rows, name="p.jsonl"), "--out", tmp_path / "p").code == 0

    def write(*completions):
        return jsonl(*completions, name="completions.jsonl"), tmp_path / "p"

    return write


@pytest.mark.parametrize("model", [(), ("--model", "builtin")])
def test_prompts_that_are_named_are_found_by_what_follows(rlvr, answered, tmp_path, model):
    given = [{"id": n, "completion": c} for n, c in (("b", "3+3"), ("a", "1+1"), ("b", "1"))]
    path, prompts = answered(*given)
    out = tmp_path / "out"
    ran = rlvr("import", path, "--prompts", prompts, *model, "--out", out)
    assert ran.code == 0 and not (out / "prompts").exists(), ran.err
    assert rlvr("score", out / "rollouts").code == 0
    scores = pq.read_table(out / "scores").to_pylist()
    assert [(s["prompt_id"], s["correct"]) for s in scores] == [
        ("b", True), ("b", False), ("a", False),
    ]  # fmt: skip
    summary = json.loads(rlvr("eval-passk", out / "scores", "--json").out)
    assert set(summary["sources"]) == {"s", "t"}
    rows = pq.read_table(out / "rollouts").to_pylist()
    assert all(bool(row["prompt_token_ids"]) == bool(model) for row in rows)


def test_prompts_are_found_by_their_text_where_ids_are_others(rlvr, answered, tmp_path):
    chat = [{"role": "user", "content": "6="}]
    path, prompts = answered(
        {"id": "x", "prompt": chat, "completion": "3+3"},
        {"id": "y", "prompt": " 5= ", "completion": "2+3"},
    )
    assert rlvr("import", path, "--prompts", prompts, "--out", tmp_path / "out").code == 0
    rows = pq.read_table(tmp_path / "out" / "rollouts").to_pylist()
    assert [row["prompt_id"] for row in rows] == ["b", "a"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "c", "completion": "1"}], "has no prompt `c`"),
        ([{"id": "c", "prompt": "7=", "completion": "1"}], "nor the text of its `prompt`"),
        (
            [{"id": "a", "completion": "1"}, {"id": "z", "prompt": "5=", "completion": "1"}],
            "`a` and `z`",
        ),
    ],
)
def test_completions_of_other_prompts_are_refused(refused, answered, tmp_path, rows, message):
    path, prompts = answered(*rows)
    words = ("--prompts", prompts, "--out", tmp_path / "out")
    assert message in refused(3, "import", path, *words)
    assert not (tmp_path / "out").exists()


def test_completions_of_other_prompts_are_another_directory(rlvr, refused, answered, tmp_path):
    words = ("--out", tmp_path / "out")
    path, prompts = answered({"id": "a", "completion": "1"})
    assert rlvr("import", path, "--prompts", prompts, *words).code == 0
    path, _ = answered({"id": "b", "completion": "1"})
    assert "other parameters" in refused(2, "import", path, "--prompts", prompts, *words)

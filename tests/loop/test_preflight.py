"""What a run refuses of its prompts before a model is loaded."""

import re
import shlex

import pytest


@pytest.fixture
def sets(rlvr, jsonl, tmp_path):
    """Makes directories of prompts by the texts that they ask; their paths."""

    def make(**texts):
        for name, asked in texts.items():
            rows = [{"prompt": text, "answer": "5", "verifier": "expression"} for text in asked]
            path = jsonl(*rows, name=f"{name}.jsonl")
            assert rlvr("prompts", path, "--out", tmp_path / name).code == 0
        return [tmp_path / name for name in texts]

    return make


@pytest.mark.parametrize("dry_run", [True, False])
def test_held_out_prompts_are_not_trained_on(refused, sets, tmp_path, dry_run):
    train, heldout = sets(train=["5=", "6=", "7="], heldout=["6 =", "6=", "9="])
    words = ["train", "--model", "builtin", "--prompts", train, "--heldout", heldout]
    words += ["--out", tmp_path / "run"]
    err = refused(2, *words, *["--dry-run"] * dry_run)
    assert (
        "1 of 3 held-out prompts are trained on, 1 with the same text, as `heldout-000002`" in err
    )
    assert not (tmp_path / "run").exists()


def test_the_hint_makes_prompts_that_may_be_trained_on(rlvr, refused, sets, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train, heldout = sets(train=["5=", "6="], heldout=["6="])
    words = ("train", "--model", "builtin", "--heldout", heldout, "--dry-run")
    words += ("--prompts-per-step", 1)
    command = re.search(
        r"`rlvr (.*?)`", refused(2, *words, "--prompts", train).partition("hint")[2]
    )
    assert rlvr(*shlex.split(command[1])).code == 0
    assert rlvr(*words, "--prompts", "trained-on").code == 0


def test_an_overlap_that_is_allowed_is_said(rlvr, sets):
    train, heldout = sets(train=["5=", "6="], heldout=["6="])
    words = ("--model", "builtin", "--prompts", train, "--heldout", heldout)
    ran = rlvr("train", *words, "--allow-overlap", "--dry-run", "--prompts-per-step", 1)
    assert ran.code == 0 and "1 of 1 held-out prompts are trained on" in ran.err


def test_prompts_that_are_not_evaluated_on_may_be_trained_on(rlvr, sets):
    train, heldout = sets(train=["5=", "6="], heldout=["6="])
    words = ("--model", "builtin", "--prompts", train, "--heldout", heldout, "--eval-every", 0)
    ran = rlvr("train", *words, "--dry-run", "--prompts-per-step", 1)
    assert ran.code == 0 and "trained on" not in ran.err


def test_the_built_in_task_is_looked_at_too(refused, rlvr, tmp_path):
    rlvr("prompts", "task:expression", "--limit", 3, "--out", tmp_path / "heldout")
    err = refused(2, "train", "--heldout", tmp_path / "heldout", "--dry-run")
    assert "3 of 3 held-out prompts are trained on" in err


def test_repeated_prompts_are_counted_before_they_are_trained_on(rlvr, sets):
    train, heldout = sets(train=["5=", "5=", "7="], heldout=["9="])
    words = ("--model", "builtin", "--prompts", train, "--heldout", heldout)
    ran = rlvr("train", *words, "--dry-run", "--prompts-per-step", 1)
    assert ran.code == 0 and f"1 of the 3 prompts of `{train}` repeat an earlier one" in ran.err


def test_a_dry_run_refuses_messages_without_a_template_and_too_few_prompts(
    refused, rlvr, jsonl, tmp_path
):
    rows = [
        {"prompt": [{"role": "user", "content": f"{n}="}], "answer": str(n), "verifier": "number"}
        for n in (1, 2)
    ]
    assert rlvr("prompts", jsonl(*rows), "--out", tmp_path / "p").code == 0
    words = ["train", "--model", "builtin", "--prompts", tmp_path / "p", "--eval-every", 0]
    words += ["--out", tmp_path / "run", "--dry-run"]
    assert "the policy has no chat template" in refused(3, *words, "--prompts-per-step", 2)
    (tmp_path / "chat.jinja").write_text("{{ messages[-1]['content'] }}")
    words += ["--template", tmp_path / "chat.jinja"]
    err = refused(2, *words)
    assert "a step of 32 prompts was asked for of 2" in err and "--prompts-per-step 2" in err
    assert rlvr(*words, "--prompts-per-step", 2).code == 0


def test_data_in_place_of_prompts_is_answered_with_the_command_that_makes_them(
    refused, rlvr, jsonl, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    data = jsonl({"prompt": "5=", "answer": "5", "verifier": "expression"})
    words = ("train", "--model", "builtin", "--prompts", data, "--eval-every", 0, "--dry-run")
    command = re.search(r"`rlvr (.*?)`", refused(3, *words).partition("hint")[2])
    assert rlvr(*shlex.split(command[1])).code == 0 and (tmp_path / "prompts").is_dir()

import json
import shutil

import pyarrow.parquet as pq

from rlvr_cli.verifiers import expression


def test_every_completion_gets_a_verdict_and_stdout_is_the_path(rlvr, known, tmp_path):
    out = tmp_path / "made"
    ran = rlvr("score", known / "rollouts", "--verifier", "expression", "--out", out)
    assert (ran.code, ran.out) == (0, f"{out}\n")
    assert ran.err.startswith("score: 8 completions, mean reward 0.375, 0 without")
    assert len(ran.err.splitlines()) == 1
    table = pq.read_table(out)
    assert table["reward"].to_pylist() == [1, 0, 1, 0, 1, 0, 0, 0]
    assert table["extracted"].to_pylist()[:3] == ["2+3", "1+1", "9-4"]
    assert set(table["status"].to_pylist()) == {"ok"}


def test_each_prompt_is_scored_by_its_own_verifier(chain):
    assert set(pq.read_table(chain / "scores")["status"].to_pylist()) <= {"ok", "no_answer"}


def test_two_shares_make_the_bytes_of_one_run(rlvr, copy, chain, files_of):
    for share in ("0/2", "1/2"):
        rlvr("score", copy / "rollouts", "--out", copy / "two", "--shard", share)
    assert files_of(copy / "two") == files_of(chain / "scores")


def test_the_directory_lies_beside_the_rollouts(rlvr, copy):
    shutil.rmtree(copy / "scores")
    assert rlvr("score", copy / "rollouts").out == f"{copy / 'scores'}\n"


def test_json_is_one_object_with_the_path(rlvr, chain):
    made = json.loads(rlvr("score", chain / "rollouts", "--json").out)
    assert (made["path"], made["completions"]) == (str(chain / "scores"), 24)


def test_dry_run_says_what_it_would_make_and_makes_nothing(rlvr, chain, tmp_path):
    ran = rlvr("score", chain / "rollouts", "--out", tmp_path / "made", "--dry-run")
    assert (ran.code, ran.out) == (0, "")
    assert "24 completions would be scored" in ran.err
    assert not (tmp_path / "made").exists()


def test_running_again_changes_nothing_and_says_so(rlvr, chain, files_of):
    before = files_of(chain / "scores")
    ran = rlvr("score", chain / "rollouts")
    assert (ran.code, ran.out) == (0, f"{chain / 'scores'}\n")
    assert "nothing left to do" in ran.err
    assert files_of(chain / "scores") == before


def test_another_verifier_is_refused_with_the_old_and_the_new_one(refused, chain):
    err = refused(2, "score", chain / "rollouts", "--verifier", "expression")
    assert "verifier was None, is expression" in err


def test_another_directory_than_rollouts_is_refused(refused, chain):
    err = refused(3, "score", chain / "prompts")
    assert "holds prompts, rollouts were expected" in err


def test_an_unknown_verifier_is_refused_with_the_near_one(refused, chain, tmp_path):
    words = ("--verifier", "expresion", "--out", tmp_path / "made")
    assert "did you mean `expression`?" in refused(2, "score", chain / "rollouts", *words)


def test_a_prompt_without_a_verifier_is_named(refused, known, tmp_path):
    err = refused(3, "score", known / "rollouts", "--out", tmp_path / "made")
    assert "prompt `a` names no verifier" in err and "--verifier" in err


def test_an_error_rate_above_1_is_refused(refused, chain):
    assert "--max-error-rate" in refused(2, "score", chain / "rollouts", "--max-error-rate", 2)


def test_a_fault_of_a_verifier_is_a_status_with_no_reward(rlvr, chain, tmp_path, monkeypatch):
    def broken(completion, *, answer, extra):
        raise RuntimeError("no luck")

    monkeypatch.setattr(expression, "build", lambda: broken)
    out = tmp_path / "made"
    ran = rlvr("score", chain / "rollouts", "--out", out)
    assert (ran.code, ran.out) == (4, f"{out}\n")
    assert "failed on 100.0% of its rows: 24 error" in ran.err.splitlines()[-2]
    assert rlvr("check", out).code == 0
    rows = pq.read_table(out).to_pylist()
    assert {(r["status"], r["reward"], r["correct"]) for r in rows} == {("error", None, None)}
    assert rows[0]["extracted"] == "RuntimeError: no luck"
    assert rlvr("score", chain / "rollouts", "--out", out).code == 4
    assert rlvr("score", chain / "rollouts", "--out", out, "--max-error-rate", 1).code == 0


def test_a_gold_answer_that_does_not_parse_is_a_fault_too(rlvr, jsonl, tmp_path):
    source = jsonl({"id": "a", "prompt": "5=", "answer": "five", "completion": "2+3"})
    rlvr("import", source, "--out", tmp_path)
    ran = rlvr("score", tmp_path / "rollouts", "--verifier", "expression")
    assert ran.code == 4 and "1 bad_gold" in ran.err


def test_prompts_that_moved_are_named_with_a_flag(rlvr, refused, copy):
    shutil.move(copy / "prompts", copy / "elsewhere")
    err = refused(3, "score", copy / "rollouts", "--out", copy / "made")
    assert "prompts` does not exist" in err
    words = ("--prompts", copy / "elsewhere", "--out", copy / "made")
    assert rlvr("score", copy / "rollouts", *words).code == 0


def test_other_prompts_than_those_sampled_are_refused(rlvr, refused, copy):
    rlvr("prompts", "task:expression", "--limit", 5, "--out", copy / "other")
    words = ("--prompts", copy / "other", "--out", copy / "made")
    assert "is not the directory that" in refused(3, "score", copy / "rollouts", *words)

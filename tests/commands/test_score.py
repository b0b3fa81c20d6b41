import contextlib
import json
import platform
import shutil
import sqlite3

import pyarrow.parquet as pq
import pytest

from rlvr_cli.stages import golds, score
from rlvr_cli.storage.shards import Shards
from rlvr_cli.verification.sandbox import launch
from rlvr_cli.verification.verifiers import expression


def test_every_completion_gets_a_verdict_and_stdout_is_the_path(rlvr, known, tmp_path):
    out = tmp_path / "made"
    ran = rlvr("score", known / "rollouts", "--verifier", "expression", "--out", out)
    assert (ran.code, ran.out) == (0, f"{out}\n")
    assert ran.err.startswith("score: 8 completions, mean reward 0.375, 0 without a reward; ")
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
    summary = json.loads(rlvr("score", chain / "rollouts", "--json").out)
    assert (summary["path"], summary["completions"]) == (str(chain / "scores"), 24)


def test_dry_run_says_what_it_would_make_and_makes_nothing(rlvr, chain, tmp_path):
    ran = rlvr("score", chain / "rollouts", "--out", tmp_path / "made", "--dry-run")
    assert (ran.code, ran.out) == (0, "")
    assert "would score 24 completions to" in ran.err
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
    assert rows[0]["reason"] == "RuntimeError: no luck"
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
    assert "prompts`, which `" in err and "is not there" in err
    words = ("--prompts", copy / "elsewhere", "--out", copy / "made")
    assert rlvr("score", copy / "rollouts", *words).code == 0


def test_other_prompts_than_those_sampled_are_refused(rlvr, refused, copy):
    rlvr("prompts", "task:expression", "--limit", 5, "--out", copy / "other")
    words = ("--prompts", copy / "other", "--out", copy / "made")
    assert "is not the directory that" in refused(3, "score", copy / "rollouts", *words)


@pytest.fixture
def sums(rlvr, jsonl, tmp_path):
    """Rollouts of two prompts with mathematics, as a JSONL file has them."""
    rows = [
        {"id": "a", "prompt": "?", "answer": "1/2", "completion": text}
        for text in ("\\boxed{0.5}", "\\boxed{\\frac12}", "\\boxed{0.5}", "it is 0.5", "\\boxed{5}")
    ]
    rows += [{"id": "b", "prompt": "?", "answer": "\\frac{}{}", "completion": "\\boxed{1}"}]
    rlvr("import", jsonl(*rows), "--out", tmp_path)
    return tmp_path / "rollouts"


@pytest.mark.slow
def test_mathematics_is_scored_in_processes_and_a_bad_gold_has_no_reward(rlvr, sums):
    ran = rlvr("score", sums, "--verifier", "math", "--workers", 2)
    assert ran.code == 4 and "16.7% of its rows: 1 bad_gold" in ran.err
    rows = pq.read_table(sums.parent / "scores").to_pylist()
    assert [r["reward"] for r in rows] == [1, 1, 1, 0, 0, None]
    assert [r["status"] for r in rows] == ["ok"] * 3 + ["no_answer", "ok", "bad_gold"]
    assert [r["extracted"] for r in rows][:2] == ["0.5", "\\frac12"]
    versions = json.loads((sums.parent / "scores/_manifest.json").read_text())["versions"]
    assert {"math-verify", "latex2sympy2_extended", "sympy"} <= versions.keys()


@pytest.mark.slow
def test_each_distinct_answer_is_verified_once_and_known_the_next_time(sums, tmp_path):
    source = Shards.open(sums)
    asked = []
    for name, cache in (("one", "x"), ("two", "x"), ("three", "y")):
        with score.scorer(workers=1, cache=tmp_path / cache) as scorer:
            scores = score.run(source, tmp_path / name, verifier="math", with_scorer=scorer)
            asked.append(scorer.asked)
    assert asked == [5, 0, 5]
    with score.scorer(workers=1, use_cache=False) as scorer:
        plain = score.run(source, tmp_path / "four", verifier="math", with_scorer=scorer)
        assert scorer.asked == 6
    assert scores.table() == plain.table()


@pytest.mark.slow
def test_other_options_are_another_question(rlvr, sums, tmp_path):
    words = ("--verifier", "math:unanchored=true", "--max-error-rate", 1, "--out", tmp_path / "out")
    assert rlvr("score", sums, *words).code == 0
    assert pq.read_table(tmp_path / "out")["reward"].to_pylist() == [1, 1, 1, 1, 0, None]


@pytest.mark.slow
def test_the_number_of_workers_changes_no_byte(rlvr, sums, tmp_path, files_of):
    outputs = []
    for workers in (1, 3):
        out = tmp_path / str(workers)
        words = ("--verifier", "math", "--workers", workers, "--no-cache", "--out", out)
        rlvr("score", sums, *words)
        outputs.append(files_of(out))
    assert outputs[0] == outputs[1]


@pytest.mark.slow
def test_a_sum_has_a_column_for_each_part(rlvr, sums, tmp_path):
    words = ("--verifier", "0.75*math+0.25*format", "--max-error-rate", 1, "--out", tmp_path / "o")
    assert rlvr("score", sums, *words).code == 0
    table = pq.read_table(tmp_path / "o")
    assert table["reward"].to_pylist() == [1, 1, 1, 0, 0.25, None]
    assert table["reward_math"].to_pylist() == [1, 1, 1, 0, 0, None]
    assert table["reward_format"].to_pylist() == [1, 1, 1, 0, 1, 1]
    assert table["correct"].to_pylist() == [True, True, True, False, False, None]
    assert rlvr("check", tmp_path / "o").code == 0


def test_a_function_of_a_file_scores_and_another_content_of_it_is_refused(
    rlvr, refused, sums, tmp_path
):
    path = tmp_path / "mine.py"
    path.write_text("def size(completion, *, answer, extra): return len(completion) > 10\n")
    words = ("score", sums, "--verifier", f"{path}:size", "--out", tmp_path / "o")
    assert rlvr(*words).code == 0
    assert pq.read_table(tmp_path / "o")["reward"].to_pylist() == [1, 1, 1, 0, 0, 0]
    path.write_text("def size(completion, *, answer, extra): return 1\n")
    assert "was made with other parameters" in refused(2, *words)


def test_a_verifier_that_runs_programs_asks_for_leave(refused, sums, tmp_path):
    err = refused(2, "score", sums, "--verifier", "code", "--out", tmp_path / "o")
    assert "executes what a model wrote" in err and "--allow-code-execution" in err


def test_where_nothing_isolates_programs_are_refused_unless_that_is_allowed(
    rlvr, refused, sums, tmp_path, monkeypatch
):
    monkeypatch.setattr(launch, "works", lambda kind: False)
    words = ("score", sums, "--verifier", "code", "--out", tmp_path / "o", "--allow-code-execution")
    assert "--unsafe-no-sandbox" in refused(2, *words)
    assert "programs run in this sandbox: none\n" in rlvr(*words, "--unsafe-no-sandbox").err


def test_a_machine_without_a_filter_of_system_calls_is_refused_unless_that_is_allowed(
    rlvr, refused, sums, tmp_path, monkeypatch
):
    launch.fault.cache_clear()
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    words = ("score", sums, "--verifier", "code", "--out", tmp_path / "o", "--allow-code-execution")
    missing = "there is no filter of system calls for `riscv64`"
    assert missing in refused(2, *words)
    ran = rlvr(*words, "--unsafe-no-sandbox")
    assert f"programs run in this sandbox: none, and {missing}\n" in ran.err
    result = launch.run("bubblewrap", {}, {}, seconds=1.0, memory_bytes=1 << 30)
    assert result == {"status": "error", "reason": missing}
    launch.fault.cache_clear()


@pytest.mark.slow
def test_a_cache_that_cannot_be_used_is_said(rlvr, sums, tmp_path):
    (tmp_path / "cache").write_text("no database" * 500)
    words = ("--verifier", "math", "--cache", tmp_path / "cache", "--out", tmp_path / "o")
    ran = rlvr("score", sums, *words)
    assert f"continued without `{tmp_path}/cache`: file is not a database" in ran.err
    assert pq.read_table(tmp_path / "o")["reward"].to_pylist() == [1, 1, 1, 0, 0, None]


@pytest.mark.slow
def test_golds_that_cannot_be_read_are_found_without_any_completion(sums):
    rows = Shards.open(sums.parent / "prompts").table().to_pylist()
    rows += [{"prompt_id": "c", "answer": None, "verifier": "number", "extra": None}]
    with score.scorer(workers=1) as scorer:
        unreadable = golds.unreadable(rows, scorer, "math")
    assert unreadable == {
        "b": r"its shape is not read: \frac{}{}",
        "c": "it is empty",
    }


def test_what_exceeds_a_limit_and_has_a_reward_is_no_failure_of_the_verifier(rlvr, jsonl, tmp_path):
    endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM t) SELECT count(*) FROM t"
    (tmp_path / "db").mkdir()
    with contextlib.closing(sqlite3.connect(tmp_path / "db" / "shop.sqlite")) as connection:
        connection.execute("create table t(n int)")
    rows = [{"id": "a", "prompt": "?", "answer": "SELECT 1", "db": "shop", "completion": endless}]
    rlvr("import", jsonl(*rows), "--out", tmp_path)
    spec = f"sql:databases={tmp_path / 'db'},timeout_s=0.5"
    words = ("score", tmp_path / "rollouts", "--verifier")
    failed = rlvr(*words, spec, "--out", tmp_path / "fault")
    assert failed.code == 4 and "with `exceeding=wrong`, an option of code and sql" in failed.err
    paid = rlvr(*words, f"{spec},exceeding=wrong", "--out", tmp_path / "wrong")
    assert paid.code == 0, paid.err
    assert pq.read_table(tmp_path / "wrong").to_pylist()[0]["reward"] == 0


def test_golds_that_a_file_of_completions_lacks_are_taken_from_prompts(rlvr, jsonl, tmp_path):
    file = jsonl({"id": "a", "prompt": "2+2?", "completion": "\\boxed{4}"}, name="batch.jsonl")
    asked = jsonl({"id": "a", "question": "2+2?", "answer": "4"}, name="asked.jsonl")
    assert rlvr("import", file, "--out", tmp_path / "i").code == 0
    ran = rlvr("score", tmp_path / "i" / "rollouts", "--verifier", "math")
    assert ran.code == 4
    assert "hint: `rlvr import FILE --prompts PROMPTS` takes those of prompts; " in ran.err
    assert rlvr("prompts", asked, "--out", tmp_path / "p").code == 0
    words = ("--prompts", tmp_path / "p", "--out", tmp_path / "j")
    assert rlvr("import", file, *words).code == 0
    assert rlvr("score", tmp_path / "j" / "rollouts", "--verifier", "math").code == 0

import json
import shutil

import pyarrow.parquet as pq
import pytest

from rlvr_cli.models import policy


@pytest.fixture(scope="session")
def trained(known):
    """The known rewards with their advantages, and the policy updated on them once."""
    from rlvr_cli.cli import app

    assert app.run(["advantage", f"{known}/scores"]) == 0
    words = ["--model", "builtin", "--learning-rate", "1e-3"]
    assert app.run(["train-step", f"{known}/advantages", *words]) == 0
    return known


@pytest.fixture
def again(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "again")


def test_a_policy_is_written_and_stdout_is_the_path(rlvr, trained, tmp_path):
    out = tmp_path / "made"
    words = ("--model", "builtin", "--learning-rate", "1e-3", "--out", out)
    ran = rlvr("train-step", trained / "advantages", *words)
    assert (ran.code, ran.out) == (0, f"{out}\n")
    said, done = ran.err.splitlines()
    assert f"`{trained / 'rollouts'}` was imported" in said and "had sampled them" in said
    assert done.startswith("train-step: 1 update on 28 tokens; before the first update: loss ")
    (row,) = pq.read_table(out / "part-00000.parquet").to_pylist()
    assert (row["sequences"], row["tokens"], row["clip_fraction"]) == (8, 28, 0)
    assert row["ratio_min"] == pytest.approx(1, abs=1e-6) and row["grad_norm"] > 0
    assert policy.resolve(str(out)).path == out / "_checkpoint"


def test_the_update_raises_what_was_rewarded(rlvr, trained, tmp_path):
    words = ("--columns", "old_logp", "--model", trained / "update", "--out", tmp_path / "after")
    assert rlvr("logprob", trained / "rollouts", *words).code == 0
    words = ("--columns", "old_logp", "--model", "builtin", "--out", tmp_path / "before")
    assert rlvr("logprob", trained / "rollouts", *words).code == 0
    after, before = (
        [sum(logps) for logps in pq.read_table(tmp_path / name)["old_logp"].to_pylist()]
        for name in ("after", "before")
    )
    advantage = pq.read_table(trained / "advantages")["advantage"].to_pylist()
    gain = [a * (new - old) for a, new, old in zip(advantage, after, before, strict=True)]
    assert sum(gain) > 0


def test_the_same_update_gives_the_same_checkpoint(rlvr, trained, tmp_path):
    words = ("--model", "builtin", "--learning-rate", "1e-3", "--out", tmp_path / "made")
    summary = json.loads(rlvr("train-step", trained / "advantages", *words, "--json").out)
    assert summary["path"] == str(tmp_path / "made")
    assert summary["policy"] == policy.resolve(str(trained / "update")).digest
    assert summary["policy"] != policy.resolve("builtin").digest


def test_dry_run_says_what_it_would_do_and_does_nothing(rlvr, trained, tmp_path):
    words = ("--model", "builtin", "--out", tmp_path / "made", "--dry-run")
    ran = rlvr("train-step", trained / "advantages", *words)
    assert (ran.code, ran.out) == (0, "")
    assert "`builtin` by grpo:clip_low=0.2" in ran.err
    assert not (tmp_path / "made").exists()


def test_running_again_changes_nothing_and_says_so(rlvr, trained, files_of):
    before = files_of(trained / "update") | files_of(trained / "update" / "_checkpoint")
    words = ("--model", "builtin", "--learning-rate", "1e-3")
    ran = rlvr("train-step", trained / "advantages", *words)
    assert (ran.code, ran.out) == (0, f"{trained / 'update'}\n")
    assert "nothing left to do" in ran.err
    assert files_of(trained / "update") | files_of(trained / "update" / "_checkpoint") == before


def test_another_learning_rate_is_refused_with_the_old_and_the_new_one(refused, trained):
    words = ("--model", "builtin", "--learning-rate", "1e-2")
    err = refused(2, "train-step", trained / "advantages", *words)
    assert "learning_rate was 0.001, is 0.01" in err


def test_the_policy_is_found_through_the_rollouts(rlvr, chain, tmp_path):
    ran = rlvr("train-step", chain / "advantages", "--out", tmp_path / "made")
    assert (
        ran.code == 0 and "ratios 1.0000000 to 1.0000000; before the last update: kl 0;" in ran.err
    )


def test_another_directory_than_advantages_is_refused(refused, chain):
    assert "advantages were expected" in refused(3, "train-step", chain / "scores")


def test_tokens_whose_ratio_is_held_are_counted_and_said(rlvr, known, tmp_path):
    words = ("--algo", "quatro", "--out", tmp_path / "advantages")
    assert rlvr("advantage", known / "scores", *words).code == 0
    words = ("--model", "builtin", "--learning-rate", "0.2", "--epochs", 3)
    ran = rlvr("train-step", tmp_path / "advantages", *words, "--out", tmp_path / "made", "--json")
    summary = json.loads(ran.out)
    held, tokens = summary["clamp_count"], summary["tokens"]
    assert 0 < held < tokens == 84
    assert f"the log importance ratio of {held} of {tokens} tokens is beyond 20 nats" in ran.err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--algo", "quatro"), 2, "was made by grpo:clip_low=0.2"),
        (("--algo", "grpo:clip_low=0.1"), 2, "--algo is grpo:clip_low=0.1"),
        (("--algo", "gropo"), 2, "did you mean `grpo`?"),
        (("--learning-rate", "fast"), 2, "--learning-rate"),
        (("--learning-rate", -1), 2, "--learning-rate is -1"),
        (("--learning-rate", "nan"), 2, "--learning-rate is nan"),
        (("--epochs", 0), 2, "--epochs is 0"),
        (("--old-logprobs", "stored"), 3, "--columns old_logp"),
        (("--logprobs", "nope"), 3, "`nope` does not exist"),
        (("--rollouts", "nope"), 3, "`nope`, which"),
    ],
)
def test_a_wrong_word_is_refused(refused, chain, tmp_path, words, code, message):
    out = tmp_path / "made"
    assert message in refused(code, "train-step", chain / "advantages", *words, "--out", out)
    assert not (out / "_manifest.json").exists()


def test_its_own_algorithm_in_other_words_is_accepted(rlvr, chain, tmp_path):
    words = ("--algo", "grpo:clip_high=0.2", "--out", tmp_path / "made")
    assert rlvr("train-step", chain / "advantages", *words).code == 0


def test_the_reference_that_kl_needs_is_made_by_the_command_in_the_hint(rlvr, refused, copy):
    rlvr("advantage", copy / "scores", "--algo", "grpo+kl", "--out", copy / "with-kl")
    err = refused(3, "train-step", copy / "with-kl")
    assert "needs ref_logp" in err
    hint = err.splitlines()[-1].partition("`")[2].partition("`")[0]
    assert hint.startswith(f"rlvr logprob {copy / 'rollouts'} ")
    assert rlvr(*hint.replace("MODEL", "builtin").split()[1:]).code == 0
    assert rlvr("train-step", copy / "with-kl").code == 0


def test_the_hint_works_where_other_log_probs_lie_beside_the_advantages(rlvr, refused, copy):
    rlvr("logprob", copy / "rollouts")
    rlvr("advantage", copy / "scores", "--algo", "grpo+kl", "--out", copy / "with-kl")
    hint = refused(3, "train-step", copy / "with-kl").splitlines()[-1]
    words = hint.partition("`")[2].partition("`")[0].replace("MODEL", "builtin").split()
    assert rlvr(*words[1:]).code == 0


@pytest.mark.parametrize("is_made", [False, True])
def test_the_hint_works_where_the_advantages_lie_elsewhere(rlvr, refused, copy, tmp_path, is_made):
    if is_made:
        rlvr("logprob", copy / "rollouts")
    away = tmp_path / "away" / "advantages"
    rlvr("advantage", copy / "scores", "--algo", "otb", "--out", away)
    hint = refused(3, "train-step", away).splitlines()[-1]
    assert rlvr(*hint.partition("`")[2].partition("`")[0].split()[1:]).code == 0
    assert hint.endswith("then name that with --logprobs")
    assert rlvr("train-step", away, "--logprobs", copy / "more-logprobs").code == 0


def test_another_policy_than_the_sampled_one_is_refused_unless_allowed(rlvr, refused, copy):
    rlvr("train-step", copy / "advantages", "--learning-rate", "1e-3")
    words = ("--model", copy / "update", "--out", copy / "second")
    err = refused(2, "train-step", copy / "advantages", *words)
    assert "sampled from another policy" in err and "--off-policy" in err
    assert rlvr("train-step", copy / "advantages", *words, "--off-policy").code == 0


def test_text_without_token_ids_is_refused(rlvr, refused, known, tmp_path):
    rlvr("import", known / "rows.jsonl", "--out", tmp_path)
    rlvr("advantage", tmp_path / "scores")
    err = refused(3, "train-step", tmp_path / "advantages", "--model", "builtin")
    assert "without token ids" in err and "rlvr import --model" in err


def test_imported_rollouts_need_the_policy_named(refused, trained, tmp_path):
    err = refused(2, "train-step", trained / "advantages", "--out", tmp_path / "made")
    assert "does not say which policy" in err and "--model" in err


def test_rollouts_without_the_samplers_log_probs_cannot_stand_for_the_old_policys(
    refused, trained, tmp_path
):
    words = ("--model", "builtin", "--old-logprobs", "rollout", "--out", tmp_path / "made")
    assert "behaviour_logp" in refused(3, "train-step", trained / "advantages", *words)


def test_greedy_rollouts_are_no_samples_of_the_policy(rlvr, refused, copy):
    words = ("--max-new-tokens", 16, "-n", 1, "--temperature", 0, "--out", copy / "greedy")
    rlvr("rollout", copy / "prompts", *words)
    rlvr("score", copy / "greedy", "--out", copy / "greedy-scores")
    words = ("--allow-singletons", "--out", copy / "greedy-advantages")
    rlvr("advantage", copy / "greedy-scores", *words)
    err = refused(2, "train-step", copy / "greedy-advantages", "--out", copy / "made")
    assert "temperature 0" in err


def test_advantages_that_keep_nothing_are_refused(rlvr, refused, jsonl, tmp_path):
    rows = [{"id": "a", "prompt": "5=", "completion": "2+3", "reward": 1.0}] * 2
    rlvr("import", jsonl(*rows), "--out", tmp_path, "--model", "builtin")
    rlvr("advantage", tmp_path / "scores", "--drop-uninformative")
    err = refused(3, "train-step", tmp_path / "advantages", "--model", "builtin")
    assert "keeps no rows" in err


def test_a_changed_part_is_refused_by_its_name(refused, again):
    part = again / "advantages" / "part-00000.parquet"
    part.write_bytes(part.read_bytes()[:-1])
    words = ("--model", "builtin", "--out", again / "made")
    assert "does not match its checksum" in refused(3, "train-step", again / "advantages", *words)

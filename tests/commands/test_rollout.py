import json
import shutil

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rlvr_cli.models import policy

SMALL = ("--max-new-tokens", 16, "-n", 4, "--prompts-per-part", 3)
TINY = ("--model", "builtin")


@pytest.fixture
def model(tmp_path):
    """A copy of the built-in policy, to be damaged."""
    return shutil.copytree(policy.resolve("builtin").path, tmp_path / "model")


@pytest.fixture
def overlong(rlvr, jsonl, tmp_path):
    """Two prompts, the second of 600 tokens in a context of 512."""
    rows = [
        {"id": name, "prompt": text, "answer": "5", "verifier": "expression"}
        for name, text in (("short", "5="), ("long", "1+" * 300))
    ]
    rlvr("prompts", jsonl(*rows), "--out", tmp_path / "prompts")
    return tmp_path / "prompts"


def test_every_prompt_gets_a_group_and_stdout_is_the_path(rlvr, chain, tmp_path):
    out = tmp_path / "made"
    ran = rlvr("rollout", chain / "prompts", *SMALL, "--out", out)
    assert (ran.code, ran.out) == (0, f"{out}\n")
    first, second = ran.err.splitlines()
    assert first.startswith("rollout: no --model given, using the built-in tiny policy")
    assert second.startswith("rollout: 24 completions, ")
    table = pq.read_table(out)
    assert table["sample_index"].to_pylist() == [0, 1, 2, 3] * 6
    assert table["prompt_id"].unique().to_pylist() == (
        pq.read_table(chain / "prompts")["prompt_id"].to_pylist()
    )
    assert set(table["status"].to_pylist()) == {"ok"}
    assert set(table["finish_reason"].to_pylist()) <= {"stop", "length"}
    assert len(table["seed"].unique()) == 24


def test_a_row_has_a_log_prob_for_each_token_and_its_text(chain, loaded):
    for row in pq.read_table(chain / "rollouts").to_pylist():
        assert len(row["token_ids"]) == len(row["behaviour_logp"]) <= 16
        assert max(row["behaviour_logp"]) <= 0
        text = loaded.tokenizer.decode(row["token_ids"], skip_special_tokens=True)
        assert text == row["completion"]
        assert (row["token_ids"][-1] in loaded.eos_ids) == (row["finish_reason"] == "stop")


def test_the_rows_do_not_depend_on_how_they_are_cut_into_parts(rlvr, chain, tmp_path):
    words = ("--max-new-tokens", 16, "-n", 4, "--engine", "transformers:batch_size=5")
    rlvr("rollout", chain / "prompts", *words, "--out", tmp_path / "made")
    table, usual = pq.read_table(tmp_path / "made"), pq.read_table(chain / "rollouts")
    for name in set(table.column_names) - {"behaviour_logp"}:
        assert table[name].to_pylist() == usual[name].to_pylist(), name
    ours, theirs = (pc.list_flatten(t["behaviour_logp"]).to_pylist() for t in (table, usual))
    assert ours == pytest.approx(theirs, abs=1e-4)


def test_two_shares_make_the_bytes_of_one_run(rlvr, copy, chain, files_of):
    for share in ("0/2", "1/2"):
        ran = rlvr("rollout", copy / "prompts", *SMALL, "--out", copy / "two", "--shard", share)
        assert ran.code == 0
    assert files_of(copy / "two") == files_of(chain / "rollouts")


def test_the_directory_lies_beside_the_prompts(rlvr, copy):
    shutil.rmtree(copy / "rollouts")
    assert rlvr("rollout", copy / "prompts", *SMALL).out == f"{copy / 'rollouts'}\n"


def test_json_is_one_object_with_the_path(rlvr, chain):
    summary = json.loads(rlvr("rollout", chain / "prompts", *SMALL, "--json").out)
    assert summary["path"] == str(chain / "rollouts")
    assert (summary["prompts"], summary["completions"], summary["skipped"]) == (6, 24, 0)


def test_dry_run_says_what_it_would_make_and_makes_nothing(rlvr, chain, tmp_path):
    out = tmp_path / "made"
    ran = rlvr("rollout", chain / "prompts", *SMALL, "--out", out, "--dry-run")
    assert (ran.code, ran.out) == (0, "")
    assert f"6 prompts x 4 completions of `builtin` would go to `{out}`" in ran.err
    assert not out.exists()


def test_running_again_changes_nothing_and_says_so(rlvr, chain, files_of):
    before = files_of(chain / "rollouts")
    ran = rlvr("rollout", chain / "prompts", *SMALL)
    assert (ran.code, ran.out) == (0, f"{chain / 'rollouts'}\n")
    assert "nothing left to do" in ran.err
    assert files_of(chain / "rollouts") == before


@pytest.mark.parametrize(
    ("words", "change"),
    [
        (("--temperature", 0.5), "temperature was 1.0, is 0.5"),
        (("--seed", 1), "seed was 0, is 1"),
        (("--limit", 4), "limit was None, is 4"),
    ],
)
def test_another_parameter_is_refused_with_the_old_and_the_new_value(refused, chain, words, change):
    assert change in refused(2, "rollout", chain / "prompts", *SMALL, *words)


def test_another_directory_than_prompts_is_refused(refused, chain):
    err = refused(3, "rollout", chain / "scores", *SMALL)
    assert "holds scores, prompts were expected" in err


def test_the_builtin_policy_samples_without_any_option(rlvr, chain, tmp_path):
    words = ("--limit", 1, "--out", tmp_path / "made")
    assert rlvr("rollout", chain / "prompts", *words).code == 0


def test_temperature_0_gives_one_completion_a_prompt(rlvr, chain, tmp_path):
    words = ("--max-new-tokens", 16, "--temperature", 0, "-n", 1, "--limit", 2)
    assert rlvr("rollout", chain / "prompts", *words, "--out", tmp_path / "made").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--temperature", 0, "-n", 4), "temperature 0 gives 4 times the same"),
        (("--temperature", -1), "--temperature is -1"),
        (("--temperature", "hot"), "--temperature"),
        (("--temperature", "nan"), "--temperature is nan"),
        (("--temperature", "inf"), "--temperature is inf"),
        (("--top-p", 0), "--top-p is 0"),
        (("--top-p", 1.5), "--top-p is 1.5"),
        (("-n", 0), "--num-generations is 0"),
        (("--engine", "transformer"), "did you mean `transformers`?"),
        (("--engine", "transformers:batch=4"), "batch_size"),
        (("--engine", "transformers:batch_size=x"), "an integer was expected"),
        (("--engine", "transformers:batch_size=0"), "batch_size"),
        (("--overlong", "cut"), "'error', 'skip', 'truncate'"),
        (("--prompts-per-step", 60), "--prompts-per-step 6"),
        (("--shard", "4/4"), "--shard is `4/4`"),
    ],
)
def test_a_wrong_word_is_a_usage_error(refused, chain, tmp_path, words, message):
    out = tmp_path / "made"
    assert message in refused(2, "rollout", chain / "prompts", *SMALL, *words, "--out", out)
    assert not out.exists()


def test_a_folder_without_a_configuration_is_no_model(refused, chain, model):
    (model / "config.json").unlink()
    assert "no config.json" in refused(3, "rollout", chain / "prompts", "--model", model, *SMALL)


def test_a_model_without_a_tokenizer_is_refused(refused, chain, model):
    (model / "tokenizer.json").unlink()
    assert "has no tokenizer" in refused(3, "rollout", chain / "prompts", "--model", model, *SMALL)


@pytest.mark.parametrize("name", ["tokenizer.json", "config.json", "model.safetensors"])
def test_a_broken_file_of_a_model_is_refused(refused, chain, model, name):
    (model / name).write_text("{}")
    words = ("--model", model, "--limit", 1, "--out", model.parent / "made")
    assert str(model) in refused(3, "rollout", chain / "prompts", *SMALL, *words)


def test_there_is_no_such_model(refused, chain):
    err = refused(3, "rollout", chain / "prompts", "--model", "nope", *SMALL)
    assert "no policy at `nope`" in err


def test_a_copy_of_the_policy_samples_the_same_rows(rlvr, chain, model):
    out = model.parent / "made"
    rlvr("rollout", chain / "prompts", *SMALL, "--model", model, "--out", out)
    assert pq.read_table(out).equals(pq.read_table(chain / "rollouts"))


def test_an_overlong_prompt_is_an_error_unless_told_otherwise(refused, overlong):
    err = refused(3, "rollout", overlong, *SMALL, *TINY)
    assert "prompt `long` has 600 tokens" in err and "room for 496" in err
    assert "--overlong skip" in err


def test_an_overlong_prompt_is_cut_at_its_start(rlvr, overlong):
    out = overlong.parent / "rollouts"
    assert rlvr("rollout", overlong, *SMALL, *TINY, "--overlong", "truncate").code == 0
    rows = pq.read_table(out).to_pylist()
    assert [row["status"] for row in rows] == ["ok"] * 4 + ["prompt_truncated"] * 4
    assert {len(row["prompt_token_ids"]) for row in rows[4:]} == {496}


def test_a_skipped_prompt_keeps_its_rows_and_no_later_stage_falls_over_it(rlvr, overlong):
    root = overlong.parent
    assert "4 skipped" in rlvr("rollout", overlong, *SMALL, *TINY, "--overlong", "skip").err
    rows = pq.read_table(root / "rollouts").to_pylist()
    assert [row["status"] for row in rows] == ["ok"] * 4 + ["prompt_too_long"] * 4
    assert {row["finish_reason"] for row in rows[4:]} == {"abort"}
    assert [row["token_ids"] for row in rows[4:]] == [[]] * 4

    assert "4 without" in rlvr("score", root / "rollouts").err
    scores = pq.read_table(root / "scores").to_pylist()
    assert [(row["reward"], row["status"]) for row in scores[4:]] == [(None, "aborted")] * 4

    assert rlvr("logprob", root / "rollouts").code == 0
    assert rlvr("advantage", root / "scores").code == 0
    advantages = pq.read_table(root / "advantages").to_pylist()
    assert [row["keep"] for row in advantages] == [True] * 4 + [False] * 4
    assert [row["advantage"] for row in advantages[4:]] == [None] * 4
    assert rlvr("train-step", root / "advantages").code == 0


def test_a_list_of_messages_needs_a_chat_template(rlvr, refused, jsonl, tmp_path):
    source = jsonl({"prompt": [{"role": "user", "content": "5="}], "answer": "5"})
    rlvr("prompts", source, "--out", tmp_path / "prompts")
    err = refused(3, "rollout", tmp_path / "prompts", *SMALL, *TINY)
    assert "`rows-000001`" in err and "chat" in err


def test_stored_rollouts_replay(rlvr, chain, tmp_path):
    words = ("--engine", f"replay:path={chain / 'rollouts'}", "--out", tmp_path / "made")
    assert rlvr("rollout", chain / "prompts", *SMALL, *words).code == 0
    assert pq.read_table(tmp_path / "made").equals(pq.read_table(chain / "rollouts"))


def test_replay_without_a_path_says_that_it_needs_one(refused, chain, tmp_path):
    words = ("--engine", "replay", "--out", tmp_path / "made")
    assert "replay:path=" in refused(2, "rollout", chain / "prompts", *SMALL, *words)

import json

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

REF = ("--ref-model", "builtin")


def flat(path, name):
    return pc.list_flatten(pq.read_table(path)[name]).to_pylist()


@pytest.fixture(scope="session")
def logprobs(chain, tmp_path_factory):
    from rlvr_cli.cli import app

    out = tmp_path_factory.mktemp("logprobs") / "of-both"
    words = ("--ref-model", "builtin", "--out", str(out))
    assert app.run(["logprob", f"{chain}/rollouts", *words]) == 0
    return out


def test_stdout_is_the_path_and_stderr_counts_tokens(rlvr, chain, tmp_path):
    ran = rlvr("logprob", chain / "rollouts", "--out", tmp_path / "made")
    assert (ran.code, ran.out) == (0, f"{tmp_path / 'made'}\n")
    tokens = len(flat(chain / "rollouts", "token_ids"))
    which, counted = ran.err.splitlines()
    assert "using `builtin`" in which and counted.startswith(f"logprob: {tokens} tokens; ")
    names = pq.read_table(tmp_path / "made").column_names
    assert names == ["prompt_id", "sample_index", "old_logp", "entropy", "max_prob"]


def test_the_trainer_agrees_with_the_sampler(logprobs, chain):
    sampled = flat(chain / "rollouts", "behaviour_logp")
    assert flat(logprobs, "old_logp") == pytest.approx(sampled, abs=1e-4)


def test_a_policy_is_its_own_reference(logprobs):
    assert flat(logprobs, "old_logp") == flat(logprobs, "ref_logp")


def test_entropy_and_the_likeliest_probability_lie_in_their_ranges(logprobs):
    assert min(flat(logprobs, "entropy")) >= 0
    assert all(0 < p <= 1 for p in flat(logprobs, "max_prob"))


def test_only_the_columns_asked_for_are_made(rlvr, chain, tmp_path):
    words = ("--columns", "entropy", "--out", tmp_path / "made")
    assert rlvr("logprob", chain / "rollouts", *words).code == 0
    names = pq.read_table(tmp_path / "made").column_names
    assert names == ["prompt_id", "sample_index", "entropy"]


def test_the_likeliest_tokens_of_the_reference_come_beside_its_log_probs(rlvr, chain, tmp_path):
    ran = rlvr("logprob", chain / "rollouts", *REF, "--ref-top-k", 8, "--out", tmp_path / "made")
    assert ran.code == 0
    table = pq.read_table(tmp_path / "made")
    expected = ["old_logp", "ref_logp", "entropy", "max_prob", "ref_topk_ids", "ref_topk_logp"]
    assert table.column_names == ["prompt_id", "sample_index", *expected]
    token = table["ref_topk_ids"][0].as_py()[0]
    assert len(token) == len(set(token)) == 8


def test_the_likeliest_tokens_can_be_made_alone(rlvr, chain, tmp_path):
    words = ("--columns", "ref_topk_ids,ref_topk_logp", "--ref-top-k", 3)
    ran = rlvr("logprob", chain / "rollouts", *REF, *words, "--out", tmp_path / "made", "--json")
    assert json.loads(ran.out)["tokens"] == len(flat(chain / "rollouts", "token_ids"))
    names = pq.read_table(tmp_path / "made").column_names
    assert names == ["prompt_id", "sample_index", "ref_topk_ids", "ref_topk_logp"]


def test_another_k_is_refused_with_the_old_and_the_new_one(rlvr, refused, copy):
    assert rlvr("logprob", copy / "rollouts", *REF, "--ref-top-k", 3).code == 0
    err = refused(2, "logprob", copy / "rollouts", *REF, "--ref-top-k", 4)
    assert "ref_top_k was 3, is 4" in err


def test_two_shares_make_the_bytes_of_one_run(rlvr, copy, files_of):
    for out, share in (("one", "0/1"), ("two", "0/2"), ("two", "1/2")):
        words = ("--out", copy / out, *REF, "--ref-top-k", 3, "--shard", share)
        assert rlvr("logprob", copy / "rollouts", *words).code == 0
    assert files_of(copy / "two") == files_of(copy / "one")


def test_running_again_changes_nothing_and_says_so(rlvr, copy, files_of):
    assert rlvr("logprob", copy / "rollouts").out == f"{copy / 'logprobs'}\n"
    before = files_of(copy / "logprobs")
    ran = rlvr("logprob", copy / "rollouts", "--json")
    assert ran.code == 0 and json.loads(ran.out)["path"] == str(copy / "logprobs")
    assert "nothing left to do" in ran.err
    assert files_of(copy / "logprobs") == before


def test_dry_run_says_what_it_would_make_and_makes_nothing(rlvr, chain, tmp_path):
    ran = rlvr("logprob", chain / "rollouts", "--out", tmp_path / "made", "--dry-run")
    assert (ran.code, ran.out) == (0, "")
    assert "old_logp, entropy, max_prob of 24 rows" in ran.err
    assert not (tmp_path / "made").exists()


def test_other_columns_are_refused_with_the_old_and_the_new_ones(refused, logprobs, chain):
    words = ("--columns", "entropy", "--out", logprobs)
    err = refused(2, "logprob", chain / "rollouts", *words)
    assert "columns was ['old_logp', 'entropy', 'max_prob', 'ref_logp'], is ['entropy']" in err


def test_another_directory_than_rollouts_is_refused(refused, chain):
    assert "rollouts were expected" in refused(3, "logprob", chain / "scores")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ("--columns", "entrpy"),
            2,
            "the columns are old_logp, entropy, max_prob, collision, ref_logp",
        ),
        (("--columns", "ref_logp"), 2, "--ref-model"),
        (("--ref-top-k", 8), 2, "ref_topk_ids needs a reference policy"),
        ((*REF, "--columns", "ref_topk_ids"), 2, "--ref-top-k is 0"),
        ((*REF, "--columns", "ref_topk_logp", "--ref-top-k", 0), 2, "as in --ref-top-k 8"),
        ((*REF, "--columns", "ref_logp", "--ref-top-k", 8), 2, "none of the requested columns"),
        ((*REF, "--ref-top-k", -1), 2, "--ref-top-k"),
        ((*REF, "--ref-top-k", 9999), 2, "the vocabulary of `builtin` has"),
        (("--model", "nope"), 3, "`nope`"),
        (("--ref-model", "nope"), 3, "`nope`"),
        (("--micro-batch-tokens", 0), 2, "--micro-batch-tokens"),
    ],
)
def test_a_wrong_word_is_refused(refused, chain, tmp_path, words, code, message):
    assert message in refused(
        code, "logprob", chain / "rollouts", *words, "--out", tmp_path / "made"
    )
    assert not (tmp_path / "made").exists()


def test_a_wrong_column_is_refused_before_a_dry_run_promises_it(refused, chain):
    refused(2, "logprob", chain / "rollouts", "--columns", "entrpy", "--dry-run")


def test_rollouts_of_another_tool_need_the_policy_named(refused, known, tmp_path):
    err = refused(2, "logprob", known / "rollouts", "--out", tmp_path / "made")
    assert "does not say which policy" in err and "--model" in err

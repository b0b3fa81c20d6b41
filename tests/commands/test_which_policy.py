"""Which policy a stage takes without --model: it is said, and the tiny one is never a surprise."""

import pyarrow.parquet as pq
import pytest

SMALL = ("--max-new-tokens", 8, "-n", 2)


@pytest.fixture
def own(rlvr, jsonl, tmp_path):
    """Prompts of one's own, and prompts made from those."""
    rows = jsonl({"prompt": "5=", "answer": "5"}, {"prompt": "6=", "answer": "6"})
    assert rlvr("prompts", rows, "--verifier", "expression", "--out", tmp_path / "own").code == 0
    assert rlvr("prompts", tmp_path / "own", "--limit", 1, "--out", tmp_path / "fewer").code == 0
    return tmp_path


@pytest.mark.parametrize("name", ["own", "fewer"])
@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_prompts_of_ones_own_are_not_given_to_the_tiny_policy_unasked(refused, own, name, words):
    err = refused(2, "rollout", own / name, *SMALL, *words)
    assert "no --model is given" in err and "--model builtin" in err
    assert not (own / "rollouts").exists()


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_a_run_on_prompts_of_ones_own_needs_a_model(refused, own, words):
    where = ("--prompts", own / "own", "--eval-every", 0, "--out", own / "run")
    err = refused(2, "train", *where, *words)
    assert "no --model is given" in err and not (own / "run").exists()
    (own / "run.toml").write_text(f"[train]\nprompts = '{own / 'own'}'\neval_every = 0\n")
    assert "no --model is given" in refused(2, "train", "--config", own / "run.toml", *words)


def test_the_tiny_policy_can_be_asked_for(rlvr, own):
    where = ("--prompts", own / "own", "--eval-every", 0, "--prompts-per-step", 2)
    assert rlvr("rollout", own / "own", *SMALL, "--model", "builtin").code == 0
    assert rlvr("train", *where, "--model", "builtin", "--dry-run").code == 0
    (own / "run.toml").write_text("[train]\nmodel = 'builtin'\n")
    assert rlvr("train", *where, "--config", own / "run.toml", "--dry-run").code == 0


def test_prompts_of_the_builtin_task_have_the_policy_that_knows_it(rlvr, chain, tmp_path):
    limited = tmp_path / "fewer"
    rlvr("prompts", chain / "prompts", "--limit", 2, "--out", limited)
    for prompts in (chain / "prompts", limited):
        ran = rlvr("rollout", prompts, *SMALL, "--out", tmp_path / f"of-{prompts.name}")
        assert ran.code == 0 and "using the built-in tiny policy" in ran.err


def test_what_was_begun_with_a_policy_goes_on_with_it(rlvr, own):
    words = ("rollout", own / "own", *SMALL, "--prompts-per-part", 1)
    assert rlvr(*words, "--model", "builtin").code == 0
    part = own / "rollouts" / "part-00001.parquet"
    before = part.read_bytes()
    part.unlink()
    ran = rlvr(*words)
    assert ran.code == 0 and "using `builtin`" in ran.err and "was begun with it" in ran.err
    assert part.read_bytes() == before


def test_later_stages_say_which_policy_they_take_and_why(rlvr, copy):
    for command, source in (("logprob", "rollouts"), ("train-step", "advantages")):
        ran = rlvr(command, copy / source, "--out", copy / command)
        assert ran.code == 0
        why = f"using `builtin`, because `{copy / 'rollouts'}` was sampled from it"
        assert f"{command}: no --model given, {why}" in ran.err
    quiet = rlvr("logprob", copy / "rollouts", "--model", "builtin", "--out", copy / "again")
    assert "no --model" not in quiet.err


@pytest.mark.parametrize(("limit", "warns"), [(1, True), (64, False)])
def test_completions_that_the_limit_cuts_are_warned_of(rlvr, chain, tmp_path, limit, warns):
    out = tmp_path / "made"
    ran = rlvr("rollout", chain / "prompts", "-n", 2, "--max-new-tokens", limit, "--out", out)
    cut = pq.read_table(out)["finish_reason"].to_pylist().count("length")
    assert (cut > 0.1 * 12) == warns
    assert ("were cut at" in ran.err and "--max-new-tokens allows more" in ran.err) == warns


def test_imported_completions_that_were_cut_are_warned_of(rlvr, jsonl, tmp_path):
    rows = [
        {"id": "a", "prompt": "5=", "answer": "5", "completion": text, "finish_reason": reason}
        for text, reason in (("2+", "length"), ("2+3", "stop"))
    ]
    ran = rlvr("import", jsonl(*rows), "--out", tmp_path / "made")
    assert ran.code == 0 and "50% of" in ran.err and "were cut at their limit" in ran.err

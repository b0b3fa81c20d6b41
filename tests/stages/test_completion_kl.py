"""The divergence of completions that estimators charge: where it is read, and what is refused."""

import pytest

from rlvr_cli.cli import app
from rlvr_cli.storage.shards import Shards


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    path = tmp_path_factory.mktemp("kl")
    sampled = ["rollout", path / "prompts", "-n", "4", "--max-new-tokens", "8"]
    for words in (
        ["prompts", "task:expression", "--limit", "3", "--out", path / "prompts"],
        [*sampled, "--out", path / "rollouts"],
        ["score", path / "rollouts", "--out", path / "scores"],
    ):
        assert app.run(list(map(str, words))) == 0
    return path / "scores"


def test_the_stage_says_which_log_probs_it_needs_and_takes_them(scores, capsys):
    out = scores.parent / "advantages"
    asked = ["advantage", str(scores), "--algo", "rloo+kl-in-reward:beta=0.5", "--out", str(out)]
    assert app.run(asked) != 0
    said = capsys.readouterr().err
    assert "kl-in-reward needs old_logp and ref_logp" in said
    hint = said.split("make it with `rlvr ")[1].split("`")[0].replace("MODEL", "builtin").split()
    assert app.run(hint) == 0
    assert app.run(asked) == 0
    made, known = Shards.open(out), Shards.open(scores.parent / "logprobs")
    assert set(made.manifest["parents"]) == {"scores", "logprobs"}
    old, ref = (known.table()[name].to_pylist() for name in ("old_logp", "ref_logp"))
    expected = [-0.5 * (sum(o) - sum(r)) for o, r in zip(old, ref, strict=True)]
    assert made.table()["kl_in_reward"].to_pylist() == pytest.approx(expected, abs=1e-9)
    assert app.run(["train-step", str(out), "--out", str(scores.parent / "update")]) == 0


def test_log_probs_that_say_nothing_to_an_estimator_are_refused(scores, capsys):
    words = ["advantage", str(scores), "--logprobs", str(scores), "--out", str(scores.parent / "x")]
    assert app.run(words) != 0
    assert "--logprobs says nothing to this estimator" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_charges_the_divergence_from_where_it_began(tmp_path):
    words = ["train", "--algo", "rloo+kl-in-reward:beta=0.1", "--steps", "2", "--eval-every", "0"]
    words += ["--prompts-per-step", "4", "-n", "4", "--learning-rate", "1e-3"]
    assert app.run([*words, "--out", str(tmp_path / "run")]) == 0
    charged = [
        Shards.open(tmp_path / f"run/steps/{step:06d}/advantages").table()["kl_in_reward"]
        for step in (1, 2)
    ]
    assert not any(charged[0].to_pylist())  # the policy is the one that it is compared with
    assert any(charged[1].to_pylist())

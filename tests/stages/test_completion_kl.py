"""The divergence of completions that estimators charge: where it is read, and what is refused."""

import numpy as np
import pytest

from rlvr_cli.algorithms import objective
from rlvr_cli.cli import app
from rlvr_cli.config import UpdateOptions
from rlvr_cli.stages import batch
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
    away = known.path.rename(scores.parent / "away")
    words = ["--logprobs", str(away), "--out", str(scores.parent / "again")]
    assert app.run([*asked[:-2], *words]) == 0
    # What the estimator charged is in the advantages: the update reads no log-probs.
    words = ["train-step", str(scores.parent / "again"), "--out", str(scores.parent / "second")]
    assert app.run(words) == 0


def test_the_charges_of_tokens_are_made_in_the_update_of_what_it_keeps(scores, capsys):
    folder, spec = scores.parent / "of-tokens", "reinforce-pp:kl=0+kl-in-reward:beta=0.5"

    def run(*words):
        return app.run([str(word) for word in words])

    out, moved = folder / "advantages", folder / "moved"
    assert run("advantage", scores, "--algo", spec, "--out", out) == 0
    made, rollouts = Shards.open(out), Shards.open(scores.parent / "rollouts")
    assert set(made.manifest["parents"]) == {"scores"}
    assert run("advantage", scores, "--algo", "reinforce", "--out", folder / "raw") == 0
    assert run("train-step", folder / "raw", "--learning-rate", "1e-2", "--out", moved) == 0
    logprob = ("logprob", rollouts.path, "--ref-model", moved, "--columns")
    assert run(*logprob, "ref_logp", "--out", folder / "one") == 0
    update = ("train-step", out, "--out", folder / "update", "--logprobs")
    assert run(*update, folder / "one") != 0
    assert "this objective needs old_logp" in capsys.readouterr().err
    assert run(*logprob, "old_logp,ref_logp", "--out", folder / "both") == 0
    known = Shards.open(folder / "both")
    rows = batch.read(made, rollouts, known, objective.build(spec), UpdateOptions()).rows
    old, ref = (known.table()[name].to_pylist() for name in ("old_logp", "ref_logp"))
    gaps = [np.subtract(o, r) for o, r in zip(old, ref, strict=True)]
    ahead = [0.5 * np.cumsum(gap[::-1])[::-1] for gap in gaps]
    rewards = made.table()["advantage"].to_numpy()
    every = np.concatenate([a - sums for a, sums in zip(rewards, ahead, strict=True)])
    own = np.concatenate([row.token_columns["advantage"] for row in rows])
    assert max(np.abs(sums).max() for sums in ahead) > 0.01
    expected = (every - every.mean()) / max(every.std(), 1e-4)
    np.testing.assert_allclose(own, expected, rtol=1e-9, atol=1e-12)
    assert run(*update, folder / "both") == 0


def test_log_probs_that_say_nothing_to_an_estimator_are_refused(scores, capsys):
    words = ["advantage", str(scores), "--logprobs", str(scores), "--out", str(scores.parent / "x")]
    assert app.run(words) != 0
    assert "--logprobs says nothing to this estimator" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_charges_tokens_for_what_follows_them(tmp_path):
    words = ["train", "--algo", "reinforce:whiten=true+kl-in-reward:beta=0.1", "--steps", "2"]
    words += ["--prompts-per-step", "4", "-n", "4", "--learning-rate", "1e-3", "--eval-every", "0"]
    assert app.run([*words, "--out", str(tmp_path / "run")]) == 0
    for step in ("000001", "000002"):
        folder = tmp_path / "run/steps" / step
        known = Shards.open(folder / "logprobs")
        assert {"old_logp", "ref_logp"} <= set(known.manifest["only"])
        assert set(Shards.open(folder / "advantages").manifest["parents"]) == {"scores"}
    rewards = Shards.open(folder / "advantages").table()["advantage"].to_pylist()
    assert set(rewards) <= {0.0, 1.0}  # whitened in the update, with the charges


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

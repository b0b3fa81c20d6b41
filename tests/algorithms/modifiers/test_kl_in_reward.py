"""KL in the reward (arXiv:1909.08593, eq. 2): what is taken off, and what it is not."""

import numpy as np
import pytest

from rlvr_cli.algorithms import objective
from rlvr_cli.cli import app
from rlvr_cli.errors import UsageError
from rlvr_cli.storage.shards import Shards

DEFAULTS = "kl-in-reward:beta=0.001"


def refuses(objective):
    """Whether it says of an objective that they do not go together."""
    return objective.least_reward == 0 or "parts" in objective.needs


def charge(batch, beta):
    return -beta * np.array([np.sum(row.old_logp - row.ref_logp) for row in batch.rows])


def estimate(batch, *, beta, base):
    shaping = charge(batch, beta)
    return {"advantage": base(batch, batch.reward + shaping), "kl_in_reward": shaping}


def group_norm(batch, reward):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=1) + 1e-6), reward)


def leave_one_out(batch, reward):
    return batch.by_group(lambda R: (R - np.mean(R)) * len(R) / (len(R) - 1), reward)


def raw(batch, reward):
    return reward


def cost(row, batch, *, high, c):
    """The clipped token ratio of DAPO, RLOO and REINFORCE, token mean."""
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, clipped = ratio * a, np.clip(ratio, 0.8, 1 + high) * a
    gain, slope = np.minimum(free, clipped), np.where(free <= clipped, free, 0)
    if a < 0:
        gain, slope = np.maximum(gain, c * a), np.where(gain >= c * a, slope, 0)
    return -gain.sum() / batch.tokens, -slope / batch.tokens


@pytest.mark.parametrize(
    "spec, beta, base, high, c",
    [
        ("rloo+kl-in-reward", 0.001, leave_one_out, 0.2, np.inf),
        ("dapo+kl-in-reward:beta=0.1", 0.1, group_norm, 0.28, 10),
        ("reinforce+kl-in-reward:beta=2.0", 2.0, raw, 0.2, np.inf),
    ],
)
def test_kl_in_reward_is_its_equation(matches, spec, beta, base, high, c):
    matches(
        spec,
        lambda batch: estimate(batch, beta=beta, base=base),
        lambda row, batch: cost(row, batch, high=high, c=c),
    )


@pytest.mark.parametrize("beta", ["0", "-0.1"])
def test_a_charge_that_is_none_is_refused(beta):
    with pytest.raises(UsageError, match="beta must be above 0"):
        objective.build(f"rloo+kl-in-reward:beta={beta}")


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

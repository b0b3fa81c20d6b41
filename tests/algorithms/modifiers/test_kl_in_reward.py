"""KL in the reward (arXiv:1909.08593, eq. 2; arXiv:2501.03262, eq. 8 to 10)."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import tensor

from rlvr_cli.algorithms import objective
from rlvr_cli.algorithms.objective import Step, Tokens
from rlvr_cli.errors import UsageError

DEFAULTS = "kl-in-reward:beta=0.001,per=paper"


def refuses(objective):
    """Whether it says of an objective that they do not go together."""
    return objective.least_reward == 0 or bool({"parts", "correct"} & objective.needs)


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


def group_mean(batch, reward):
    return batch.by_group(lambda R: R - np.mean(R), reward)


def masked(batch, reward):
    return {"advantage": group_mean(batch, reward), "keep": ~batch.truncated}


def zero_equal(batch):
    """The group's mean off the reward, whitened over all tokens, 0 in groups of equal rewards."""
    centred = group_mean(batch, batch.reward)
    every = np.repeat(centred, batch.length)
    made = (centred - np.mean(every)) / np.sqrt(max(np.var(every), 1e-8))
    return np.where(batch.by_group(lambda R: np.ones(len(R))) == 0, 0, made)


def cost(row, batch, *, high, c=np.inf, a=None):
    """The clipped token ratio of DAPO, RLOO and REINFORCE, token mean."""
    ratio, a = np.exp(row.log_ratio), row.advantage if a is None else a
    free, clipped = ratio * a, np.clip(ratio, 0.8, 1 + high) * a
    gain, slope = np.minimum(free, clipped), np.where(free <= clipped, free, 0)
    if c < np.inf:
        slope = np.where((a < 0) & (gain < c * a), 0, slope)
        gain = np.where(a < 0, np.maximum(gain, c * a), gain)
    return -gain / batch.tokens, -slope / batch.tokens


def charged(batch, row, beta):
    """A token's advantage: that of its completion less beta times the divergence from there on."""
    gap = row.old_logp - row.ref_logp
    ahead = [sum(gap[t:]) for t in range(len(gap))]
    return batch.columns["advantage"][row.i] - beta * np.array(ahead)


def whitened(batch, row, beta):
    """That of each token less the mean over all tokens, over their deviation."""
    if not batch.whole:
        rows = [SimpleNamespace(i=i, **vars(tokens)) for i, tokens in enumerate(batch.rows)]
        every = np.concatenate([charged(batch, one, beta) for one in rows])
        batch.whole.update(mean=np.mean(every), deviation=np.sqrt(max(np.var(every), 1e-8)))
    return (charged(batch, row, beta) - batch.whole["mean"]) / batch.whole["deviation"]


@pytest.mark.parametrize(
    "spec, beta, base, high, c",
    [
        ("rloo+kl-in-reward", 0.001, leave_one_out, 0.2, np.inf),
        ("dapo+kl-in-reward:beta=0.1", 0.1, group_norm, 0.28, 10),
        ("reinforce+kl-in-reward:beta=2.0", 2.0, raw, 0.2, np.inf),
        ("rloo+kl-in-reward:beta=0.3,per=completion", 0.3, leave_one_out, 0.2, np.inf),
    ],
)
def test_kl_in_reward_is_its_equation(matches, spec, beta, base, high, c):
    matches(
        spec,
        lambda batch: estimate(batch, beta=beta, base=base),
        lambda row, batch: cost(row, batch, high=high, c=c),
    )


@pytest.mark.parametrize(
    "spec, beta, base, of_tokens, high, c",
    [
        ("reinforce:whiten=true+kl-in-reward:beta=0.2", 0.2, raw, whitened, 0.2, np.inf),
        ("reinforce:whiten=true+kl-in-reward:beta=2.0,per=token", 2.0, raw, whitened, 0.2, np.inf),
        ("reinforce-pp:kl=0+kl-in-reward", 0.001, group_mean, whitened, 0.2, np.inf),
        ("reinforce-pp:kl=0+kl-in-reward:beta=0.5", 0.5, group_mean, whitened, 0.2, np.inf),
        ("reinforce-pp:kl=0+mask-truncated+kl-in-reward", 0.001, masked, whitened, 0.2, np.inf),
        ("reinforce-pp:kl=0+kl-in-reward+mask-truncated", 0.001, masked, whitened, 0.2, np.inf),
        ("rloo+kl-in-reward:beta=0.3,per=token", 0.3, leave_one_out, charged, 0.2, np.inf),
        ("dapo+kl-in-reward:beta=0.1,per=token", 0.1, group_norm, charged, 0.28, 10),
    ],
)
def test_a_token_is_charged_for_itself_and_what_follows_it(
    matches, spec, beta, base, of_tokens, high, c
):
    matches(
        spec,
        lambda batch: base(batch, batch.reward),
        lambda row, batch: cost(row, batch, high=high, c=c, a=of_tokens(batch, row, beta)),
    )


def test_reinforce_pp_with_kl_in_the_reward_is_its_equations(matches):
    def with_k2(row, batch):
        loss, slope = cost(row, batch, high=0.2, a=whitened(batch, row, 0.001))
        x = row.logp - row.ref_logp
        return loss + 1e-5 * x**2 / 2 / batch.tokens, slope + 1e-5 * x / batch.tokens

    matches("reinforce-pp+kl-in-reward", lambda batch: group_mean(batch, batch.reward), with_k2)


@pytest.mark.parametrize(
    "spec, expected",
    [
        ("grpo+kl-in-reward", 2**-0.5 * 5e-5 * 2**0.5 / (5e-5 * 2**0.5 + 1e-6)),
        ("rloo+kl-in-reward", 1e-4),
        ("dr-grpo+kl-in-reward", 5e-5),
        ("grpo+kl-in-reward:per=token", 0.0),
    ],
)
def test_a_deviation_makes_charges_in_a_group_of_equal_rewards_as_large_as_rewards(spec, expected):
    """Two successes with divergences of 0.1 and 0.2 nats, of which 0.001 is charged."""
    one = torch.ones(2)
    step = Step(
        reward_N=one.double(),
        present_N=one.bool(),
        correct_N=one.bool(),
        group_N=tensor([0, 0]),
        length_N=tensor([3, 3]),
        max_length=9,
        kl_N=tensor([0.1, 0.2]).double(),
    )
    made = objective.advantages(objective.build(spec), step)["advantage"]
    assert made.tolist() == pytest.approx([expected, -expected], rel=1e-6)


def test_zero_equal_keeps_the_whitening_of_completions(matches):
    """Their groups of equal rewards have no place in a mean over tokens; tokens if told so."""
    spec = "reinforce-pp:kl=0,zero_equal=true+kl-in-reward"
    assert "kl_in_reward" in objective.build(spec).columns
    matches(
        f"{spec}:beta=0.1,per=token",
        zero_equal,
        lambda row, batch: cost(row, batch, high=0.2, a=charged(batch, row, 0.1)),
    )


def test_the_charges_of_a_completion_by_hand():
    # Gaps 2 and 1, then 3: with beta = 1 the advantages are 1 - 3, 1 - 1 and -1 - 3.
    seen = Tokens(
        row_K=tensor([0, 0, 1]),
        group_K=tensor([0, 0, 0]),
        place_K=tensor([0, 1, 0]),
        advantage_K=tensor([1.0, 1.0, -1.0]).double(),
        stored={
            "old_logp": tensor([-1.0, -1.0, -1.0]).double(),
            "ref_logp": tensor([-3.0, -2.0, -4.0]).double(),
        },
    )
    per_token = "kl-in-reward:beta=1.0,per=token"
    made = objective.token_values(objective.build(f"grpo+{per_token}"), seen)["advantage"]
    assert made.tolist() == [-2, 0, -4]
    made = objective.token_values(objective.build(f"reinforce-pp+{per_token}"), seen)["advantage"]
    assert made.tolist() == pytest.approx([0, 2 / (8 / 3) ** 0.5, -2 / (8 / 3) ** 0.5])


def test_a_batch_without_tokens_charges_nothing():
    none_K, number_K = torch.zeros(0).long(), torch.zeros(0).double()
    stored = {"old_logp": number_K, "ref_logp": number_K}
    seen = Tokens(none_K, none_K, none_K, number_K, stored)
    for spec in ("grpo+kl-in-reward:per=token", "reinforce-pp+kl-in-reward"):
        made = objective.token_values(objective.build(spec), seen)
        assert made["advantage"].shape == (0,)


def test_tokens_are_ranked_by_the_advantages_that_they_are_charged_to():
    goal = objective.build("grpo+kl-cov+kl-in-reward:per=token")
    assert [name for name, _ in goal.token_columns] == ["advantage", "cov_penalised"]


@pytest.mark.parametrize("spec", ["maxrl+kl-in-reward:per=token", "gdpo+kl-in-reward:per=token"])
def test_what_is_taken_off_the_advantage_goes_with_rewards_of_every_kind(spec):
    assert {"stored_old_logp", "stored_ref_logp"} <= objective.build(spec).needs


def test_a_second_advantage_for_each_token_is_refused():
    with pytest.raises(UsageError, match="has them already"):
        objective.build("otb+kl-in-reward:per=token")


def test_what_an_earlier_version_stored_charges_completions():
    made_by = "reinforce-pp:kl=0.0+kl-in-reward:beta=0.1"
    assert objective.canonical(made_by, made_by).endswith("+kl-in-reward:beta=0.1,per=completion")
    assert objective.canonical(made_by).endswith("+kl-in-reward:beta=0.1,per=paper")


@pytest.mark.parametrize("beta", ["0", "-0.1"])
def test_a_charge_that_is_none_is_refused(beta):
    with pytest.raises(UsageError, match="beta must be above 0"):
        objective.build(f"rloo+kl-in-reward:beta={beta}")


def test_it_says_what_it_needs_beside_what_the_objective_needs():
    needs = objective.build("rloo+mask-truncated+kl-in-reward").needs
    assert {"truncated", objective.COMPLETION_KL} <= needs


def test_completions_of_one_reward_have_charges_of_their_own():
    assert objective.build("rloo").is_alike and not objective.build("rloo+kl-in-reward").is_alike

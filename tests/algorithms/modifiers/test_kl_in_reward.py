"""KL in the reward (arXiv:1909.08593, eq. 2): what is taken off, and what it is not."""

import numpy as np
import pytest

from rlvr_cli.algorithms import objective
from rlvr_cli.errors import UsageError

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


def test_it_says_what_it_needs_beside_what_the_objective_needs():
    needs = objective.build("rloo+mask-truncated+kl-in-reward").needs
    assert {"truncated", objective.COMPLETION_KL} <= needs

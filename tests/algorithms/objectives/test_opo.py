"""OPO from its equations (arXiv:2505.23585)."""

import numpy as np
import pytest

DEFAULTS = "opo:clip_low=0.2,clip_high=0.2"


def estimate(batch):
    advantage = np.zeros(batch.sequences)
    for group in np.unique(batch.group):
        rows = batch.group == group
        reward, length = batch.reward[rows], batch.length[rows]
        if np.ptp(reward):
            advantage[rows] = reward - np.sum(length * reward) / np.sum(length)
    return advantage


def cost(row, batch, *, low, high):
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, clipped = ratio * a, np.clip(ratio, 1 - low, 1 + high) * a
    gain = np.minimum(free, clipped)
    return -gain.sum() / batch.tokens, -np.where(free <= clipped, free, 0) / batch.tokens


@pytest.mark.parametrize(
    "spec, low, high",
    [("opo", 0.2, 0.2), ("opo:clip_low=0.1,clip_high=0.5", 0.1, 0.5)],
)
def test_opo_is_its_equations(matches, spec, low, high):
    matches(spec, estimate, lambda row, batch: cost(row, batch, low=low, high=high))


def test_the_baseline_is_the_mean_reward_of_a_token(advantages):
    made = advantages("opo", [1, 0, 0, 1, 0], 3, 2, lengths=[6, 2, 4, 5, 15])["advantage"]
    assert made == pytest.approx([0.5, -0.5, -0.5, 0.75, -0.25], rel=1e-12)
    assert np.dot(made[:3], [6, 2, 4]) == pytest.approx(0, abs=1e-15)


def test_completions_of_one_length_have_the_advantage_of_dr_grpo(advantages):
    rewards = [1, 0, 0.25, 0, 1, 0.5]
    made, mean = (advantages(s, rewards, 3, 3)["advantage"] for s in ("opo", "dr-grpo"))
    assert made == pytest.approx(mean, rel=1e-12)


def test_no_baseline_of_a_group_has_less_variance_where_tokens_have_gradients_at_right_angles():
    """Of sum_i (R_i - b)^2 l_i, the variance up to what does not depend on b."""
    reward, length = np.array([1.0, 0, 0, 1]), np.array([3, 9, 4, 1])
    best = np.sum(length * reward) / np.sum(length)
    spread = [np.sum((reward - b) ** 2 * length) for b in (best - 0.01, best, best + 0.01)]
    assert spread[1] < min(spread[0], spread[2])


def test_a_group_of_one_has_no_advantage(advantages):
    assert advantages("opo", [1, 1, 0], 1, 2)["advantage"][0] == 0

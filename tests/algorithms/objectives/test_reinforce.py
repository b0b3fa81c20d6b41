"""REINFORCE: raw rewards as advantages, and the clipped token ratio (PPO, arXiv:1707.06347)."""

import numpy as np
import pytest

DEFAULTS = "reinforce:clip_low=0.2,clip_high=0.2"


def estimate(batch):
    return batch.reward


def cost(row, batch, *, low, high):
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, clipped = ratio * a, np.clip(ratio, 1 - low, 1 + high) * a
    gain = np.minimum(free, clipped)
    return -gain.sum() / batch.tokens, -np.where(free <= clipped, free, 0) / batch.tokens


@pytest.mark.parametrize(
    "spec, low, high",
    [("reinforce", 0.2, 0.2), ("reinforce:clip_low=0.5,clip_high=0.1", 0.5, 0.1)],
)
def test_reinforce_is_its_equations(matches, spec, low, high):
    matches(spec, estimate, lambda row, batch: cost(row, batch, low=low, high=high))


def test_a_group_of_equal_rewards_keeps_them(advantages):
    assert advantages("reinforce", [0.3, 0.3, -1, -1], 2, 2)["advantage"] == [0.3, 0.3, -1, -1]


def test_the_four_corners_of_the_clip(gains):
    gain = gains("reinforce", [1.5, 0.5, 1.5, 0.5], [1.0, 1.0, -1.0, -1.0])
    assert gain.value == pytest.approx((1.2 + 0.5 - 1.5 - 0.8) / 4, rel=1e-12)
    assert gain.slope == pytest.approx([0, 0.5 / 4, -1.5 / 4, 0], rel=1e-12)

"""Dr. GRPO from its equations (arXiv:2503.20783, sec. 3.2)."""

import numpy as np
import pytest

DEFAULTS = "dr-grpo:clip_low=0.2,clip_high=0.2,longest=0"


def estimate(batch):
    return batch.by_group(lambda R: R - np.mean(R))


def cost(row, batch, *, low, high):
    weight = 1 / (batch.sequences * batch.max_length)
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, clipped = ratio * a, np.clip(ratio, 1 - low, 1 + high) * a
    gain = np.minimum(free, clipped)
    return -weight * gain.sum(), -weight * np.where(free <= clipped, free, 0)


@pytest.mark.parametrize(
    "spec, low, high",
    [("dr-grpo", 0.2, 0.2), ("dr-grpo:clip_low=0.3,clip_high=0.05", 0.3, 0.05)],
)
def test_dr_grpo_is_its_equations(matches, spec, low, high):
    matches(spec, estimate, lambda row, batch: cost(row, batch, low=low, high=high))


def test_advantages_keep_the_scale_of_the_rewards(advantages):
    columns = advantages("dr-grpo", [4, 0, 0, 0, 0.5, 0.5], 4, 2)
    assert columns["advantage"] == [3, -1, -1, -1, 0, 0]


def test_a_token_weighs_the_same_in_a_short_completion_as_in_a_long_one(gains):
    # Two rows of two tokens on policy, 8 tokens at most: each token weighs 1/16.
    gain = gains("dr-grpo", [[1.0, 1.0], [1.0, 1.0]], [2.0, -1.0], max_length=8)
    expected = np.array([[2 / 16] * 2, [-1 / 16] * 2])
    assert gain.slope == pytest.approx(expected, rel=1e-12)


def test_the_four_corners_of_the_clip(gains):
    gain = gains("dr-grpo", [1.5, 0.5, 1.5, 0.5], [1.0, 1.0, -1.0, -1.0], max_length=1)
    assert gain.value == pytest.approx((1.2 + 0.5 - 1.5 - 0.8) / 4, rel=1e-12)
    assert gain.slope == pytest.approx([0, 0.5 / 4, -1.5 / 4, 0], rel=1e-12)

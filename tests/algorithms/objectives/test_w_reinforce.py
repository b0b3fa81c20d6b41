"""Weighted REINFORCE from its equations (arXiv:2506.01347, eq. 8)."""

import numpy as np
import pytest

DEFAULTS = "w-reinforce:positive=0.1,clip_low=0.2,clip_high=0.2"


def estimate(batch, *, positive):
    return np.where(batch.correct, positive, -1.0)


def cost(row, batch, *, low, high):
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, clipped = ratio * a, np.clip(ratio, 1 - low, 1 + high) * a
    gain = np.minimum(free, clipped)
    return -gain.sum() / batch.tokens, -np.where(free <= clipped, free, 0) / batch.tokens


@pytest.mark.parametrize(
    "spec, positive, low, high",
    [
        ("w-reinforce", 0.1, 0.2, 0.2),
        ("w-reinforce:positive=0.7,clip_low=0.05,clip_high=0.6", 0.7, 0.05, 0.6),
    ],
)
def test_w_reinforce_is_its_equations(matches, spec, positive, low, high):
    matches(
        spec,
        lambda batch: estimate(batch, positive=positive),
        lambda row, batch: cost(row, batch, low=low, high=high),
    )


def test_constant_groups_train_and_nothing_leaves_the_batch(advantages):
    columns = advantages("w-reinforce", [0, 0, 1, 1], 2, 2)
    assert columns["advantage"] == [-1, -1, 0.1, 0.1]
    assert all(columns["keep"])


def test_the_four_corners_of_the_clip(gains):
    gain = gains("w-reinforce", [1.5, 0.5, 1.5, 0.5], [0.1, 0.1, -1.0, -1.0])
    assert gain.value == pytest.approx((0.12 + 0.05 - 1.5 - 0.8) / 4, rel=1e-12)
    assert gain.slope == pytest.approx([0, 0.05 / 4, -1.5 / 4, 0], rel=1e-12)

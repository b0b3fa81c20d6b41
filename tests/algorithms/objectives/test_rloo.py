"""RLOO from its equations (arXiv:2402.14740, eq. 7)."""

import numpy as np
import pytest

DEFAULTS = "rloo:clip_low=0.2,clip_high=0.2"


def estimate(batch):
    def less_the_others(R):
        return [R[i] - np.mean(np.delete(R, i)) for i in range(len(R))]

    return batch.by_group(less_the_others)


def cost(row, batch, *, low, high):
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, clipped = ratio * a, np.clip(ratio, 1 - low, 1 + high) * a
    gain = np.minimum(free, clipped)
    return -gain.sum() / batch.tokens, -np.where(free <= clipped, free, 0) / batch.tokens


@pytest.mark.parametrize(
    "spec, low, high", [("rloo", 0.2, 0.2), ("rloo:clip_low=0.05,clip_high=0.6", 0.05, 0.6)]
)
def test_rloo_is_its_equations(matches, spec, low, high):
    matches(spec, estimate, lambda row, batch: cost(row, batch, low=low, high=high))


def test_the_advantage_is_that_of_the_group_mean_times_g_over_g_minus_one(advantages):
    reward, sizes = [1, 0, 0, 0.5, 0.25, 1, 0], (4, 3)
    values = advantages("rloo", reward, *sizes)["advantage"]
    mean = advantages("dr-grpo", reward, *sizes)["advantage"]
    factor = [4 / 3] * 4 + [3 / 2] * 3
    assert values == pytest.approx([f * a for f, a in zip(factor, mean, strict=True)], rel=1e-12)
    assert values[0] == pytest.approx(1 - 0.5 / 3, rel=1e-12)


def test_the_four_corners_of_the_clip(gains):
    gain = gains("rloo", [1.5, 0.5, 1.5, 0.5], [1.0, 1.0, -1.0, -1.0])
    assert gain.value == pytest.approx((1.2 + 0.5 - 1.5 - 0.8) / 4, rel=1e-12)
    assert gain.slope == pytest.approx([0, 0.5 / 4, -1.5 / 4, 0], rel=1e-12)

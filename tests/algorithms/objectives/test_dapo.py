"""DAPO from its equations (arXiv:2503.14476, eq. 8)."""

import numpy as np
import pytest

DEFAULTS = "dapo:clip_low=0.2,clip_high=0.28,dual_clip=10.0,eps=1e-06,ddof=1"


def estimate(batch, *, eps, ddof):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=ddof) + eps))


def cost(row, batch, *, low, high, c):
    """Token mean; the gain of A < 0 is no less than c A (arXiv:1912.09729, eq. 5)."""
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, clipped = ratio * a, np.clip(ratio, 1 - low, 1 + high) * a
    gain, slope = np.minimum(free, clipped), np.where(free <= clipped, free, 0)
    if a < 0:
        gain, slope = np.maximum(gain, c * a), np.where(gain >= c * a, slope, 0)
    return -gain.sum() / batch.tokens, -slope / batch.tokens


@pytest.mark.parametrize(
    "spec, low, high, c, eps, ddof",
    [
        ("dapo", 0.2, 0.28, 10, 1e-6, 1),
        ("dapo:clip_low=0.1,clip_high=0.5,dual_clip=2", 0.1, 0.5, 2, 1e-6, 1),
        ("dapo:eps=0.1,ddof=0", 0.2, 0.28, 10, 0.1, 0),
    ],
)
def test_dapo_is_its_equations(matches, spec, low, high, c, eps, ddof):
    matches(
        spec,
        lambda batch: estimate(batch, eps=eps, ddof=ddof),
        lambda row, batch: cost(row, batch, low=low, high=high, c=c),
    )


def test_the_four_corners_of_the_clip_and_the_dual_clip(gains):
    gain = gains("dapo", [1.5, 0.5, 1.5, 0.5, 9.0, 11.0, 11.0], [1, 1, -1, -1, -1, -1, 1])
    assert gain.value == pytest.approx((1.28 + 0.5 - 1.5 - 0.8 - 9 - 10 + 1.28) / 7, rel=1e-12)
    expected = [0, 0.5 / 7, -1.5 / 7, 0, -9 / 7, 0, 0]
    assert gain.slope == pytest.approx(expected, rel=1e-12)

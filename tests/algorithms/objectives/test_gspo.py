"""GSPO from its equations (arXiv:2507.18071, eq. 5 and 7)."""

import math

import numpy as np
import pytest

DEFAULTS = "gspo:clip_low=0.0003,clip_high=0.0004,eps=1e-06,ddof=1"


def estimate(batch, *, eps, ddof):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=ddof) + eps))


def cost(row, batch, *, low, high):
    s, a = np.exp(np.mean(row.log_ratio)), row.advantage
    free, clipped = s * a, np.clip(s, 1 - low, 1 + high) * a
    slope = free / row.length if free <= clipped else 0.0
    return -min(free, clipped) / batch.sequences, np.full(row.length, -slope / batch.sequences)


@pytest.mark.parametrize(
    "spec, low, high, eps, ddof",
    [
        ("gspo", 3e-4, 4e-4, 1e-6, 1),
        ("gspo:clip_low=0.2,clip_high=0.2,eps=0.1,ddof=0", 0.2, 0.2, 0.1, 0),
    ],
)
def test_gspo_is_its_equations(matches, spec, low, high, eps, ddof):
    matches(
        spec,
        lambda batch: estimate(batch, eps=eps, ddof=ddof),
        lambda row, batch: cost(row, batch, low=low, high=high),
    )


def test_the_four_corners_of_the_clip(gains):
    low, high = math.log(0.9996), math.log(1.0005)
    ratios = np.exp([[2 * high, 0], [2 * low, 0], [2 * high, 0], [2 * low, 0]])
    gain = gains("gspo", ratios, [1.0, 1.0, -1.0, -1.0])
    assert gain.value == pytest.approx((1.0004 + 0.9996 - 1.0005 - 0.9997) / 4, abs=1e-15)
    expected = np.array([[0, 0], [0.9996 / 8] * 2, [-1.0005 / 8] * 2, [0, 0]])
    assert gain.slope == pytest.approx(expected, rel=1e-12)

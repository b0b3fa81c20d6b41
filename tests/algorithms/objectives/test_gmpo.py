"""GMPO from its equations (arXiv:2507.20673, eq. 4)."""

import math

import numpy as np
import pytest

DEFAULTS = "gmpo:clip=0.4,eps=1e-06,ddof=1"


def estimate(batch, *, eps, ddof):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=ddof) + eps))


def cost(row, batch, *, clip):
    """A times the geometric mean of ratios that are clipped on the side A pushes them to."""
    d, a = row.log_ratio, row.advantage
    clipped = np.minimum(d, clip) if a > 0 else np.maximum(d, -clip)
    inside = d <= clip if a > 0 else d >= -clip
    gain = a * np.exp(np.mean(clipped))
    return -gain / batch.sequences, -gain * inside / (batch.sequences * row.length)


@pytest.mark.parametrize(
    "spec, clip, eps, ddof",
    [("gmpo", 0.4, 1e-6, 1), ("gmpo:clip=0.05,eps=0.1,ddof=0", 0.05, 0.1, 0)],
)
def test_gmpo_is_its_equations(matches, spec, clip, eps, ddof):
    matches(
        spec,
        lambda batch: estimate(batch, eps=eps, ddof=ddof),
        lambda row, batch: cost(row, batch, clip=clip),
    )


def test_the_four_corners_of_the_clip(gains):
    ratios = [math.exp(0.6), math.exp(-0.6), math.exp(0.6), math.exp(-0.6)]
    gain = gains("gmpo", ratios, [1.0, 1.0, -1.0, -1.0])
    up, down = math.exp(0.6), math.exp(-0.6)
    total = math.exp(0.4) + down - up - math.exp(-0.4)
    assert gain.value == pytest.approx(total / 4, rel=1e-12)
    assert gain.slope == pytest.approx([0, down / 4, -up / 4, 0], rel=1e-12)


def test_a_wrong_answer_loses_probability(gains):
    # As APMPO's eq. 14 prints it, without the outer sgn(A), it would gain some.
    assert (gains("gmpo", [[1.0, 1.1], [0.9, 1.0]], [-1.0, -2.0]).slope < 0).all()


def test_one_token_beyond_the_clip_leaves_the_gradient_of_the_others(gains):
    gain = gains("gmpo", [[math.exp(0.8), 1.0]], [1.0])
    assert gain.value == pytest.approx(math.exp(0.2), rel=1e-12)
    assert gain.slope[0] == pytest.approx([0, math.exp(0.2) / 2], rel=1e-12)

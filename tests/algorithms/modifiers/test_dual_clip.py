"""The dual clip (arXiv:1912.09729, eq. 5)."""

import numpy as np
import pytest

DEFAULTS = "dual-clip:c=3.0"


def refuses(objective):
    """Whether it says of an objective that they do not go together."""
    return objective.clip is None


def estimate(batch):
    return batch.by_group(lambda R: (R - np.mean(R)) / (np.std(R, ddof=1) + 1e-6))


def cost(row, batch, *, c, high, weight):
    """For A < 0 the gain is no less than c A."""
    ratio, a = np.exp(row.log_ratio), row.advantage
    free, clipped = ratio * a, np.clip(ratio, 0.8, 1 + high) * a
    gain, slope = np.minimum(free, clipped), np.where(free <= clipped, free, 0)
    if a < 0:
        gain, slope = np.maximum(gain, c * a), np.where(gain >= c * a, slope, 0)
    return -weight(row, batch) * gain.sum(), -weight(row, batch) * slope


def sequence_mean(row, batch):
    return 1 / (batch.sequences * row.length)


def token_mean(row, batch):
    return 1 / batch.tokens


@pytest.mark.parametrize(
    "spec, c, high, weight",
    [
        ("grpo+dual-clip", 3, 0.2, sequence_mean),
        ("grpo+dual-clip:c=1.5", 1.5, 0.2, sequence_mean),
        ("dapo+dual-clip:c=2", 2, 0.28, token_mean),
        ("dapo+dual-clip:c=15", 15, 0.28, token_mean),
    ],
)
def test_the_dual_clip_is_its_equation(matches, spec, c, high, weight):
    options = {"c": c, "high": high, "weight": weight}
    matches(spec, estimate, lambda row, batch: cost(row, batch, **options))


def gspo_cost(row, batch):
    s, a = np.exp(np.mean(row.log_ratio)), row.advantage
    gain = min(s * a, np.clip(s, 0.8, 1.2) * a)
    slope = s * a / row.length if gain == s * a else 0.0
    if a < 0 and gain < 1.25 * a:
        gain, slope = 1.25 * a, 0.0
    return -gain / batch.sequences, np.full(row.length, -slope / batch.sequences)


def test_the_ratio_of_a_completion_is_clipped_too(matches):
    matches("gspo:clip_low=0.2,clip_high=0.2+dual-clip:c=1.25", estimate, gspo_cost)


def test_the_corners_of_both_clips(gains):
    gain = gains("grpo+dual-clip", [2.5, 3.5, 0.5, 3.5], [-1, -1, -1, 1])
    assert gain.value == pytest.approx((-2.5 - 3 - 0.8 + 1.2) / 4, rel=1e-12)
    assert gain.slope == pytest.approx([-2.5 / 4, 0, 0, 0], rel=1e-12)


def test_it_replaces_the_one_of_the_objective(gains):
    assert gains("dapo", [12.0], [-1]).value == pytest.approx(-10)
    assert gains("dapo+dual-clip:c=20", [12.0], [-1]).value == pytest.approx(-12)
